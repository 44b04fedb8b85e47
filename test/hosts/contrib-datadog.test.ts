import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { reported } from './contrib-reported.js'
import { Snippets } from './python-snippets.js'

/** Datadog's own tracer, which sends to an agent of the test. */
const PRELUDE = `
import asyncio, http.server, warnings
warnings.simplefilter('ignore')
if 'agent' not in sys.modules:
    class Agent(http.server.BaseHTTPRequestHandler):
        spans, arrived = [], threading.Event()
        def do_PUT(self):
            import msgpack
            data = self.rfile.read(int(self.headers.get('Content-Length', 0)))
            if self.path == '/v0.4/traces':
                Agent.spans += [span for trace in msgpack.unpackb(data) for span in trace]
                Agent.arrived.set()
            answer = b'{"rate_by_service": {}, "endpoints": ["/v0.4/traces"]}'
            self.send_response(200); self.send_header('Content-Length', str(len(answer))); self.end_headers(); self.wfile.write(answer)
        do_POST = do_GET = do_PUT
        def log_message(self, *args): pass
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.modules['agent'] = Agent
    os.environ.update(DD_TRACE_AGENT_URL='http://127.0.0.1:%d' % server.server_port, DD_TRACE_API_VERSION='v0.4',
        DD_INSTRUMENTATION_TELEMETRY_ENABLED='false', DD_REMOTE_CONFIGURATION_ENABLED='false', DD_TRACE_STARTUP_LOGS='false')
import ddtrace
from ddtrace import tracer
from spoold import Tasks
from spoold import tasks as registry
from spoold.contrib import datadog
from spoold.testing import fake
import spoold.run as run
agent = sys.modules['agent']
agent.spans.clear(); agent.arrived.clear()
datadog._registered.clear(); registry._around_each_run.clear(); registry._around_each_schedule.clear()
def sent():
    """Of tasks, by resource."""
    tracer.flush()
    assert agent.arrived.wait(30)
    return {span['resource']: span for span in agent.spans if span['name'] == 'spoold.task'}
tasks = Tasks(namespace='shop')
`

const SNIPPETS: Readonly<Record<string, string>> = {
  'reports each run as a span with the fields of its job, and a failed run with its error': `
datadog.register_datadog(); datadog.register_datadog()
@tasks.task(name='fails', max_retries=1)
def fails(what): raise ValueError('no')
tasks.add(lambda: 0, 'works')
with fake(tasks) as kit:
    job = tasks.schedule(fails, 'tea'); tasks.schedule('works'); kit.drain()
assert tracer.current_span() is None and tracer.context_provider.active() is None
spans = sent()
assert len(agent.spans) == 2, agent.spans
span = spans['fails']
assert (span['service'], span['type'], span['error']) == ('spoold', 'worker', 1), span
wanted = {'id': str(job.id), 'task_name': 'fails', 'task_args': "('tea',)", 'status': 'JobStatus.WAITING', 'error.type': 'builtins.ValueError', 'error.message': 'no'}
assert {name: span['meta'].get(name) for name in wanted} == wanted, span['meta']
assert [span['metrics'][name] for name in ('max_retries', 'retries', 'attempt')] == [1, 0, 1], span['metrics']
assert spans['works']['meta']['status'] == 'JobStatus.SUCCEEDED'
assert ', in fails' in span['meta']['error.stack'] and spans['works'].get('error', 0) == 0
agent.spans.clear(); agent.arrived.clear()
with fake(tasks) as kit:
    tasks.schedule(fails, 'tea'); kit.drain(future=True)
    sent()
assert [span['meta']['status'] for span in sorted(agent.spans, key=lambda span: span['start'])] == ['JobStatus.WAITING', 'JobStatus.FAILED']
with fake(tasks) as kit:
    tasks.schedule('works')
    with tracer.trace('outer') as outer:
        kit.drain()
        assert tracer.current_span() is outer
tracer.flush()`,
  'continues the trace of the scheduling code in each task, even beside other coroutines': `
datadog.register_datadog(service='jobs')
place = spool(); tasks.bind(spooler=place)
@tasks.task(name='co')
async def co(i): await asyncio.sleep(0.001 * i)
ids = []
for i in range(3):
    with tracer.trace('view'):
        tasks.schedule(co, i)
        ids.append(tracer.current_span().trace_id)
tasks.schedule(co, 3)
async def main():
    packets = [{key.encode(): value.encode() for key, value in each.items()} for each in stored(place)]
    await asyncio.gather(*(run.begin(each, 1).perform_async() for each in packets))
asyncio.run(main())
sent()
found = sorted(span['trace_id'] for span in agent.spans if span['name'] == 'spoold.task')
assert len(set(found)) == 4 and {each & (1 << 64) - 1 for each in ids} < set(found), (ids, found)
assert {span['service'] for span in agent.spans if span['name'] == 'spoold.task'} == {'jobs'}`,
  'reports only the tasks of the registered namespace, under the service registered for it': `
other = Tasks()
datadog.register_datadog(tracer, namespace='shop', service='shop')
for registry_ in (tasks, other): registry_.add(lambda: 0, 'in-' + registry_.namespace)
with fake(tasks, other) as kit:
    tasks.schedule('in-shop'); other.schedule('in-spoold'); kit.drain()
    assert list(sent()) == ['in-shop']
    agent.spans.clear(); agent.arrived.clear(); datadog.register_datadog()
    tasks.schedule('in-shop'); other.schedule('in-spoold'); kit.drain()
    spans = sent()
assert len(agent.spans) == 2 and spans['in-shop']['service'] == 'shop' and spans['in-spoold']['service'] == 'spoold', agent.spans`,
  'reports jobs without registration in a Django project that ddtrace has patched': `
assert not datadog.register_datadog_if_module_patched('flask')
ddtrace.patch(django=True)
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=['spoold.contrib.django'], DATABASES={})
django.setup()
from spoold.contrib.django import spoold
spoold.add(lambda: 0, 'patched')
with fake(spoold) as kit: spoold.schedule('patched'); kit.drain()
assert list(sent()) == ['patched']`,
}

describe('Datadog, in the process', { skip: skipUnless('venv:contrib') }, () => {
  const python = new Snippets(PRELUDE, join(virtualenv('contrib'), 'bin/python'))
  for (const [title, code] of Object.entries(SNIPPETS)) python.it(title, code)
})

/** A span as the agent gets it. */
interface Span {
  readonly name: string
  readonly service: string
  readonly resource: string
  readonly type: string
  readonly error?: number
  readonly meta: Readonly<Record<string, string>>
  readonly metrics: Readonly<Record<string, number>>
}

/** Returns the spans of a list of traces in msgpack, the format of the agent's v0.4. */
function spansIn(body: Buffer): Span[] {
  const decode = 'import sys, json, msgpack; json.dump(msgpack.unpackb(sys.stdin.buffer.read()), sys.stdout)'
  const json = execFileSync(join(virtualenv('contrib'), 'bin/python'), ['-c', decode], { input: body })
  const traces: Span[][] = JSON.parse(json.toString())
  return traces.flat()
}

describe('the Datadog example', { skip: skipUnless('venv:contrib') }, () => {
  it('reports its task and a failing task to the agent', async () => {
    const variables = (place: string) => ({
      DD_TRACE_AGENT_URL: `http://${place}`,
      DD_TRACE_API_VERSION: 'v0.4',
      DD_INSTRUMENTATION_TELEMETRY_ENABLED: 'false',
      DD_REMOTE_CONFIGURATION_ENABLED: 'false',
    })
    const { code, output, id, requests } = await reported('datadog', 'contrib', variables, {
      fails: { task: 'charge', args: '["x", 2]' },
    })
    assert.equal(code, 3, output)
    assert.match(output, /order 17 is paid/)
    const spans = requests
      .filter(({ path }) => path === '/v0.4/traces')
      .flatMap(({ body }) => spansIn(body))
      .map(({ name, service, resource, type, error = 0, meta, metrics }) => [
        [name, service, resource, type, error],
        [meta.id, meta.task_name, meta.task_args, metrics.attempt, meta['error.type']],
      ])
    assert.deepEqual(spans.sort(), [
      [
        ['spoold.task', 'shop', 'charge', 'worker', 0],
        [id, 'charge', '(17,)', 1, undefined],
      ],
      [
        ['spoold.task', 'shop', 'charge', 'worker', 1],
        ['fails', 'charge', "('x', 2)", 1, 'builtins.TypeError'],
      ],
    ])
  })
})
