/**
 * Runs inside the processes of a server that `bench profile` measures: loaded before anything else (`--require`), it opens
 * their inspector to the bench over a Unix socket that the environment names. It decides nothing.
 *
 * One JSON object a line each way: `{id, thread, method, params}` comes in, `{id, result}` or `{id, error}` goes out;
 * thread 0 is the main thread. Workers are reached through its inspector, so nothing is loaded in them. A program of Node's
 * that is started with an environment of its own, as the signer is, gets what loads this file there too.
 */

import type { ChildProcess, SpawnOptions } from 'node:child_process'
import type { Session } from 'node:inspector'

type Spawn = (file: string, args: readonly string[], options: SpawnOptions) => ChildProcess
type Reply = (outcome: { result: unknown } | { error: string }) => void

interface Request {
  id: number
  thread: number
  method: string
  params?: object
}

const childProcess = require('node:child_process') as { spawn: Spawn }
const inspector = require('node:inspector') as typeof import('node:inspector')
const { syncBuiltinESMExports } = require('node:module') as typeof import('node:module')
const { connect } = require('node:net') as typeof import('node:net')
const { isMainThread } = require('node:worker_threads') as typeof import('node:worker_threads')

const SOCKET = 'CHANCERY_BENCH_SOCKET'
const socketPath = process.env[SOCKET]
// Threads that inherit the options of the process load this file as well.
if (isMainThread && socketPath !== undefined) {
  passOn(socketPath)
  serve(socketPath)
}

function passOn(path: string): void {
  const { spawn } = childProcess
  const load = `--require ${JSON.stringify(__filename)}`
  childProcess.spawn = (file, args, options) => {
    if (file !== process.execPath || options?.env === undefined) return spawn(file, args, options)
    return spawn(file, args, { ...options, env: { ...options.env, [SOCKET]: path, NODE_OPTIONS: load } })
  }
  syncBuiltinESMExports()
}

function serve(path: string): void {
  const session = new inspector.Session()
  session.connect()
  const socket = connect(path).setEncoding('utf8')
  const write = (message: object) => void socket.write(`${JSON.stringify(message)}\n`)
  // The server goes on when the bench has gone, and does not wait for it when it ends itself.
  socket.on('error', () => socket.destroy())
  socket.unref()

  const callThread = workerCalls(session, write)
  let text = ''
  socket.on('data', (chunk: string) => {
    const lines = `${text}${chunk}`.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) {
      const { id, thread, method, params } = JSON.parse(line) as Request
      const reply: Reply = (outcome) => write({ id, ...outcome })
      if (thread === 0) {
        session.post(method, params, (error, result) => reply(error ? { error: error.message } : { result }))
      } else callThread(thread, { method, params }, reply)
    }
  })
  write({ pid: process.pid })
  session.post('NodeWorker.enable', { waitForDebuggerOnStart: false })
}

/** Threads come and go: each is announced under the number of its inspector session. */
function workerCalls(session: Session, announce: (message: object) => void) {
  const waiting = new Map<string, Reply>()
  let calls = 0
  session.on('NodeWorker.attachedToWorker', ({ params: { sessionId, workerInfo } }) =>
    announce({ attached: Number(sessionId), title: workerInfo.title, url: workerInfo.url }),
  )
  session.on('NodeWorker.detachedFromWorker', ({ params: { sessionId } }) => {
    announce({ detached: Number(sessionId) })
  })
  session.on('NodeWorker.receivedMessageFromWorker', ({ params: { sessionId, message } }) => {
    const { id, result, error } = JSON.parse(message) as { id?: number; result?: unknown; error?: { message: string } }
    const key = `${sessionId}/${id}`
    waiting.get(key)?.(error ? { error: error.message } : { result })
    waiting.delete(key)
  })
  return (thread: number, call: { method: string; params: object | undefined }, reply: Reply): void => {
    const id = ++calls
    waiting.set(`${thread}/${id}`, reply)
    const message = JSON.stringify({ id, ...call })
    session.post('NodeWorker.sendMessageToWorker', { sessionId: String(thread), message }, (error) => {
      if (!error) return
      waiting.delete(`${thread}/${id}`)
      reply({ error: error.message })
    })
  }
}
