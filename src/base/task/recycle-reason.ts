/** Why a worker asks for its successor. Memory is in bytes. */
export type RecycleReason =
  | { readonly kind: 'tasks'; readonly limit: number }
  | { readonly kind: 'rss' | 'as'; readonly bytes: number; readonly limit: number }
