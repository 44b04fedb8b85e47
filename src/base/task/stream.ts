/** Where text was printed; `output`: to either, by an interpreter that does not distinguish them. */
export type Stream = 'stdout' | 'stderr' | 'output'
