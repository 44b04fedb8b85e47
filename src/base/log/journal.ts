import { fstatSync } from 'node:fs'

/**
 * Whether a descriptor leads to the systemd journal: JOURNAL_STREAM names the device and inode of the stream that the
 * service manager has made (systemd.exec(5)). A descriptor that was redirected since then has others.
 */
export function isJournal(fd: number): boolean {
  const { JOURNAL_STREAM } = process.env
  if (JOURNAL_STREAM === undefined) return false
  const { dev, ino } = fstatSync(fd, { bigint: true })
  return JOURNAL_STREAM === `${dev}:${ino}`
}

/** Of syslog(3): an error, a warning, a piece of information. */
export type Severity = 3 | 4 | 6

/** Each line with the mark of its severity, which the journal takes off (sd-daemon(3)). */
export function withSeverity(severity: Severity, lines: string): string {
  return `<${severity}>${lines.replace(/\n(?!$)/g, `\n<${severity}>`)}`
}
