// A web application that schedules tasks. A daemon runs them (spoold app.ini), or the application itself (--embedded).
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { Spoold } from 'spoold'
import { remind, sendMail, tasks } from './tasks.mjs'

export const spoold = new Spoold({ spooler: fileURLToPath(new URL('spool', import.meta.url)), tasks })

const routes = {
  'POST /orders': async to => {
    const mail = await sendMail.schedule(to, 'your order')
    await remind.scheduleAt('+14d', to)
    return [202, { mail: mail.id }]
  },
  'GET /': async () => [200, { orders: 'POST /orders?to=joe@example.com' }],
}

/** @returns the server, once it listens */
export async function listen(port) {
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost')
    const route = routes[`${request.method} ${pathname}`]
    const [status, body] = await (route?.(searchParams.get('to') ?? '') ?? [404, {}])
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await listen(Number(process.argv[2]))
  if (process.argv[3] === '--embedded') await spoold.start({ concurrency: 50 })
  process.once('SIGTERM', async () => {
    server.close()
    await spoold.stop() // tasks that run may end
  })
  console.log(`http://127.0.0.1:${server.address().port}`)
}
