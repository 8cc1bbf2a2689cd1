/** The bench's side of `agent.cts`: every thread of every Node process of a server, and calls to its inspector. */

import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export interface ServerThread {
  pid: number
  /** Of a worker as the inspector shows it, such as `[worker 1] front-1`; empty for a main thread. */
  title: string
  /** Of its entry file; empty for a main thread. */
  url: string
  /** One method of the Chrome DevTools protocol. @throws Error as the inspector says it, or when the process has gone. */
  call<Result>(method: string, params?: object): Promise<Result>
}

interface Waiting {
  resolve(result: unknown): void
  reject(error: Error): void
}

type FromAgent =
  | { pid: number }
  | { attached: number; title: string; url: string }
  | { detached: number }
  | { id: number; result: unknown }
  | { id: number; error: string }

/** A profile of a minute under load takes seconds to be put together. */
const CALL_TIMEOUT_MS = 30_000

const AGENT = fileURLToPath(new URL('./agent.cjs', import.meta.url))

export class Agents {
  /** What a server needs in its environment to load the agent. */
  readonly environment: Record<string, string>
  readonly #folder: string
  readonly #server: Server
  readonly #processes = new Set<AgentProcess>()

  private constructor(folder: string, server: Server, socketPath: string) {
    this.#folder = folder
    this.#server = server
    this.environment = {
      CHANCERY_BENCH_SOCKET: socketPath,
      NODE_OPTIONS: `--require ${JSON.stringify(AGENT)}`,
    }
    server.on('connection', (socket) => {
      const process = new AgentProcess(socket)
      this.#processes.add(process)
      socket.on('close', () => this.#processes.delete(process))
    })
  }

  /** `close` is the caller's. */
  static async listen(): Promise<Agents> {
    // Whoever reaches the socket commands the server's inspector: the folder is ours alone.
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-agents-'))
    const server = createServer()
    const socketPath = path.join(folder, 'socket')
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socketPath, resolve))
    return new Agents(folder, server, socketPath)
  }

  /** Those that live now. */
  get threads(): ServerThread[] {
    return [...this.#processes].flatMap((process) => process.threads)
  }

  close(): void {
    for (const process of this.#processes) process.end()
    this.#server.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

class AgentProcess {
  readonly #socket: Socket
  readonly #threads = new Map<number, ServerThread>()
  readonly #waiting = new Map<number, Waiting>()
  #pid = 0
  #calls = 0

  constructor(socket: Socket) {
    this.#socket = socket
    let text: string[] = []
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      // A profile is one line of megabytes in many chunks: they are joined once.
      const lines = chunk.split('\n')
      for (const line of lines.slice(0, -1)) {
        this.#receive(JSON.parse(text.join('') + line) as FromAgent)
        text = []
      }
      text.push(lines.at(-1) as string)
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`process ${this.#pid} has ended`))
      this.#waiting.clear()
    })
  }

  get threads(): ServerThread[] {
    return [...this.#threads.values()]
  }

  end(): void {
    this.#socket.destroy()
  }

  #receive(message: FromAgent): void {
    if ('pid' in message) {
      this.#pid = message.pid
      this.#add(0, '', '')
    } else if ('attached' in message) this.#add(message.attached, message.title, message.url)
    else if ('detached' in message) this.#threads.delete(message.detached)
    else {
      const waiting = this.#waiting.get(message.id)
      this.#waiting.delete(message.id)
      if ('error' in message) waiting?.reject(new Error(message.error))
      else waiting?.resolve(message.result)
    }
  }

  #add(number: number, title: string, url: string): void {
    const call = <Result>(method: string, params?: object) =>
      new Promise<Result>((resolve, reject) => {
        const id = ++this.#calls
        const late = () => {
          this.#waiting.delete(id)
          reject(new Error(`thread ${title || 'main'} of process ${this.#pid} did not answer ${method}`))
        }
        const timer = setTimeout(late, CALL_TIMEOUT_MS)
        const settle = <T>(how: (value: T) => void) => {
          return (value: T) => {
            clearTimeout(timer)
            how(value)
          }
        }
        this.#waiting.set(id, {
          resolve: settle((result: unknown) => resolve(result as Result)),
          reject: settle(reject),
        })
        this.#socket.write(`${JSON.stringify({ id, thread: number, method, params })}\n`)
      })
    this.#threads.set(number, { pid: this.#pid, title, url, call })
  }
}
