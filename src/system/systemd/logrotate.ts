/** A rule for logrotate(8): the daemon opens its log again on SIGHUP, and may not be able to create it. */
export function logrotateRule(log: string, owner: { user: string; group: string }, signal: string): string {
  return `"${log.replace(/["\\]/g, '\\$&')}" {
    weekly
    rotate 8
    missingok
    notifempty
    compress
    delaycompress
    create 0640 ${owner.user} ${owner.group}
    postrotate
        ${signal}
    endscript
}
`
}
