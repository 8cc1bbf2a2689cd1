/**
 * The open sessions of a pool, and the server that each has begun on.
 *
 * A connection to a server that is cut off neither works nor fails. TCP gives up after 15 minutes, and Node.js cannot
 * set TCP_USER_TIMEOUT. So while a session is stuck, all hosts are asked which takes writes. When that is another
 * server, the sessions of the former one are ended, idle ones as well.
 */

import { type DatabaseSettings, Hosts, openPrimary } from './session.ts'

/** A hundred times what a batch takes. A busy machine or a checkpoint of the database stays below. */
const STUCK_MS = 1_000
const LOOK_MS = 250
/** One host that does not answer must not hold up the others' next turn. */
const ASK_MS = 1_000
/** A pause after slow statements on a server that still leads. */
const PAUSE_MS = 2_000

export class Session {
  readonly host: string
  /** Undefined until it has begun. */
  server: string | undefined
  /** Since when it is being opened, or works; by `performance.now()`. */
  busySince: number | undefined = performance.now()
  /** Fails what it works on. It is called at most once. */
  readonly end: () => void

  constructor(host: string, end: () => void) {
    this.host = host
    this.end = end
  }

  busy(): void {
    this.busySince = performance.now()
  }

  idle(): void {
    this.busySince = undefined
  }
}

export class Sessions {
  readonly hosts: Hosts
  readonly #settings: DatabaseSettings
  readonly #all = new Set<Session>()
  #timer: NodeJS.Timeout | undefined
  #asking = false
  #notBefore = 0

  constructor(settings: DatabaseSettings) {
    this.hosts = new Hosts(settings.hosts)
    this.#settings = { ...settings, connectionTimeoutMs: ASK_MS, statementTimeoutMs: ASK_MS }
  }

  /** @param end fails the opening of the session, or what it works on */
  open(host: string, end: () => void): Session {
    const session = new Session(host, end)
    this.#all.add(session)
    this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref()
    return session
  }

  closed(session: Session): void {
    this.#all.delete(session)
    if (this.#all.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** @param server as `beginSession` returned it */
  begun(session: Session, server: string): void {
    session.server = server
    session.idle()
    this.#endOthers(session.host, server)
  }

  /** How many work for longer than work takes. */
  stuck(): number {
    return this.#stuck().filter(({ server }) => server !== undefined).length
  }

  #stuck(): Session[] {
    const before = performance.now() - STUCK_MS
    return [...this.#all].filter(({ busySince }) => busySince !== undefined && busySince < before)
  }

  async #look(): Promise<void> {
    if (this.#asking || performance.now() < this.#notBefore || this.#stuck().length === 0) return
    this.#asking = true
    try {
      const { client, host, server } = await openPrimary(this.#settings)
      this.hosts.turnTo(host)
      this.#endOthers(host, server)
      this.#notBefore = performance.now() + PAUSE_MS
      await client.end()
    } catch {
      // None takes writes yet. What is stuck has bounds of its own, and its caller is told.
    } finally {
      this.#asking = false
    }
  }

  #endOthers(host: string, server: string): void {
    for (const session of [...this.#all]) {
      if (session.server === undefined ? session.host === host : session.server === server) continue
      this.closed(session)
      session.end()
    }
  }
}
