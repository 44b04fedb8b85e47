export const DELIVERIES = ['at-least-once', 'at-most-once'] as const

/**
 * What happens to a task whose process dies in the middle of it: it runs again, or, because nobody knows how far it came,
 * it is buried.
 */
export type Delivery = (typeof DELIVERIES)[number]

export function isDelivery(value: unknown): value is Delivery {
  return DELIVERIES.some(delivery => delivery === value)
}
