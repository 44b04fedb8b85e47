/**
 * Handlers that prove that only one process at a time runs a task. Each run creates a symlink named after the task's
 * number, with its pid as the target; that fails if the link exists. A killed process leaves its link behind, and is dead,
 * or about to be, when its lock is released.
 */
export const FENCED = (fences: string) => `
import { readFileSync, readlinkSync, symlinkSync, unlinkSync } from 'node:fs'
const isDead = pid => {
  try { return /^\\S+ \\(.*\\) [ZX]/s.test(readFileSync('/proc/' + pid + '/stat', 'latin1')) } catch { return true }
}
const enter = link => {
  for (const deadline = performance.now() + 2000; ; )
    try { return symlinkSync(String(process.pid), link) } catch {
      let holder
      try { holder = readlinkSync(link) } catch { continue }
      if (isDead(holder)) try { unlinkSync(link) } catch {}
      else if (performance.now() > deadline) return JOURNAL('DOUBLE ' + link + ' held by ' + holder + ', wanted by ' + process.pid)
    }
}
const line = (word, env, task) => JOURNAL(word + ' ' + env.n + ' ' + process.pid + ' 0 ' + task.attempt)
export default async (env, task) => {
  const link = ${JSON.stringify(fences)} + '/' + env.n
  line('start', env, task)
  enter(link)
  await new Promise(resolve => setTimeout(resolve, Number(env.ms ?? 0)))
  unlinkSync(link)
  line('end', env, task)
  return task.SPOOL_OK
}`

/** The same handler in Python, for uWSGI. */
export const FENCED_PYTHON = (fences: string) => `
def line(word, env): journal('%s %s %d 0 1' % (word, env['n'], os.getpid()))
def is_dead(pid):
    try:
        with open('/proc/%s/stat' % pid) as f: return f.read().rsplit(')', 1)[1].split()[0] in 'ZX'
    except OSError: return True
def spooler(env):
    env = dict([text.decode() if isinstance(text, bytes) else text for text in pair] for pair in env.items())
    link = ${JSON.stringify(fences)} + '/' + env['n']
    line('start', env)
    deadline = time.time() + 2
    while True:
        try:
            os.symlink(str(os.getpid()), link)
            break
        except FileExistsError:
            try: holder = os.readlink(link)
            except OSError: continue
            if is_dead(holder):
                try: os.unlink(link)
                except OSError: pass
            elif time.time() > deadline:
                journal('DOUBLE %s held by %s, wanted by %d' % (link, holder, os.getpid()))
                break
    time.sleep(float(env.get('ms', '0')) / 1000)
    os.unlink(link)
    line('end', env)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
