/** A process in small: two fronts on one port, one dies in the way given as argument (a path: within a request), then an orderly end. */
import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { superviseThread } from '../../src/runtime/thread.ts'
import type { FrontMessages } from './front.entry.ts'

const how = process.argv[2]!

function front(name: string, port: number) {
  return superviseThread<FrontMessages>({
    name,
    entry: new URL('./front.entry.js', import.meta.url),
    data: { port },
    mailboxLimit: 10,
    readyTimeoutMs: 30_000,
    stopTimeoutMs: 20_000,
    restart: { initialDelayMs: 10, maxDelayMs: 100, maxRestarts: 5, windowMs: 60_000 },
    onEvent: ({ type }) => process.stdout.write(`${name} ${type}\n`),
  })
}

const steady = front('steady', 0)
await steady.start()
const port = await steady.ref.ask('port', undefined, 30_000)
const dying = front('dying', port)
await dying.start()

// Open connections with requests in flight on both threads.
for (let request = 0; request < 20; request++) {
  get({ host: '127.0.0.1', port, path: '/slow', agent: false }, (response) => response.resume()).on(
    'error',
    () => undefined,
  )
}
await sleep(100)
if (how.startsWith('/')) {
  // Only one thread may be left to take the connection.
  await steady.stop()
  get({ host: '127.0.0.1', port, path: how, agent: false }).on('error', () => undefined)
} else {
  dying.ref.tell('crash', how as FrontMessages['crash']['message'])
}
while (dying.crashes === 0 || dying.status !== 'running') await sleep(5)
await Promise.all([steady.stop(), dying.stop()])
