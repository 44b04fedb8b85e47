/** A name in which nobody can hide a line of his own, or orders to a terminal: control characters as `\x0a`. */
export function printable(name: string): string {
  return name.replace(/\p{Cc}/gu, char => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`)
}
