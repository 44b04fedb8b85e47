export const DELIVERIES = ['at-least-once', 'at-most-once'] as const

/**
 * What happens to a task whose process dies during the run: it runs again, or it is buried because its outcome is unknown.
 */
export type Delivery = (typeof DELIVERIES)[number]

export function isDelivery(value: unknown): value is Delivery {
  return DELIVERIES.some(delivery => delivery === value)
}
