export function sumOf(counts: Readonly<Partial<Record<string, number>>>): number {
  return Object.values(counts).reduce<number>((sum, count = 0) => sum + count, 0)
}
