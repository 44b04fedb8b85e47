/** Where something was printed; `output`: to one of the two, of an interpreter for which they are one. */
export type Stream = 'stdout' | 'stderr' | 'output'
