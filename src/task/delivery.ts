/**
 * What happens to a task whose process dies in the middle of it: it runs again, or, because nobody knows how far it came,
 * it is buried.
 */
export type Delivery = 'at-least-once' | 'at-most-once'
