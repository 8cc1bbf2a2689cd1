/** SMTP: one pool of connections to the mail server, what its refusals mean, and whether it answers. */

import nodemailer from 'nodemailer'
import type { CheckStatus } from '../../domain/health.ts'

export interface MailSettings {
  host: string
  port: number
  tls: 'starttls' | 'implicit' | 'none'
  /** PEM; undefined for the authorities of Node.js. */
  ca: string | undefined
  login: { user: string; pass: string } | undefined
  from: string
  cc: readonly string[]
  /** These recipients are in the envelope only. */
  bcc: readonly string[]
  timeoutMs: number
  /** Names the sender in List-Id. */
  serverUrl: string
}

interface OutgoingMail {
  recipient: string
  subject: string
  text: string
  html: string
  messageId: string
}

/** `permanent`: this mail will never be taken. `server`: no mail is taken at the moment. */
type MailTrouble = 'permanent' | 'temporary' | 'server'

export class MailError extends Error {
  readonly trouble: MailTrouble

  constructor(message: string, trouble: MailTrouble) {
    super(message)
    this.trouble = trouble
  }
}

export const MAIL_CONNECTIONS = 4
/** A connection that stays long gathers what servers count against it. */
const MAILS_OF_A_CONNECTION = 100
const MAX_ERROR = 300

/** Errors about the connection or the login concern every mail. */
const OF_SERVER = new Set([
  'ECONNECTION',
  'ETIMEDOUT',
  'ESOCKET',
  'EDNS',
  'ETLS',
  'EAUTH',
  'EPROTOCOL',
  'EPROXY',
  'ENOAUTH',
])

export class MailTransport {
  readonly #settings: MailSettings
  #pool: ReturnType<typeof openPool>

  constructor(settings: MailSettings) {
    this.#settings = settings
    this.#pool = openPool(settings)
  }

  /** @throws MailError */
  async send(mail: OutgoingMail): Promise<void> {
    const { from, cc, bcc, timeoutMs } = this.#settings
    const { recipient, subject, text, html, messageId } = mail
    const sending = this.#pool.sendMail({
      from,
      to: recipient,
      cc: [...cc],
      subject,
      text,
      html,
      messageId,
      envelope: { from, to: [recipient, ...cc, ...bcc] },
      headers: { 'Auto-Submitted': 'auto-generated', 'List-Id': this.#listId() },
      disableFileAccess: true,
      disableUrlAccess: true,
    })
    const { rejected, rejectedErrors } = await this.#within(sending, timeoutMs)
    // Taken for others of the envelope: the library calls that a success.
    const isRefused = rejected.some((address: string | { address: string }) => addressOf(address) === recipient)
    if (isRefused) throw mailError(rejectedErrors?.[0] ?? new Error('the recipient was refused'))
  }

  /** Connects, greets, and signs in. @throws MailError */
  async probe(): Promise<void> {
    await this.#within(this.#pool.verify(), this.#settings.timeoutMs)
  }

  /** Idle connections end at once, busy ones with their mail. */
  close(): void {
    this.#pool.close()
  }

  /** A server that dribbles keeps within every limit of the library. */
  async #within<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.#pool.close()
        this.#pool = openPool(this.#settings)
        reject(new MailError(`the mail server did not finish within ${timeoutMs / 1000} s`, 'server'))
      }, timeoutMs)
    })
    try {
      return await Promise.race([work, late])
    } catch (error) {
      throw error instanceof MailError ? error : mailError(error as Error)
    } finally {
      clearTimeout(timer)
    }
  }

  #listId(): string {
    const host = new URL(this.#settings.serverUrl).hostname.replaceAll(/[^\w.-]/g, '')
    return `<notifications.${host}>`
  }
}

function openPool({ host, port, tls, ca, login, timeoutMs }: MailSettings) {
  return nodemailer.createTransport({
    pool: true,
    maxConnections: MAIL_CONNECTIONS,
    maxMessages: MAILS_OF_A_CONNECTION,
    host,
    port,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    tls: { minVersion: 'TLSv1.2', ...(ca !== undefined && { ca }) },
    ...(login && { auth: login }),
    disableFileAccess: true,
    disableUrlAccess: true,
  })
}

const addressOf = (address: string | { address: string }) => (typeof address === 'string' ? address : address.address)

/** RFC 5321 §4.2.1: 4yz may pass, 5yz will not. */
function mailError(error: Error & { code?: string; responseCode?: number; response?: string }): MailError {
  const { code = '', responseCode = 0, response, message } = error
  const text = (response ?? message)
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, MAX_ERROR)
  if (code === 'EAUTH') return new MailError(`the mail server refuses the login: ${text}`, 'server')
  // Also with a status: 502 to STARTTLS is no verdict about the mail.
  if (OF_SERVER.has(code) || responseCode === 421) return new MailError(text, 'server')
  return new MailError(text, responseCode >= 500 ? 'permanent' : 'temporary')
}

/** Health is asked more often than a mail server likes to be greeted. */
const PROBE_LIFE_MS = 30_000

/** Whether the mail server answers: connects, greets and signs in, at most twice a minute. */
export class MailProbe {
  /** No other mail uses it: a probe that takes too long closes all connections of its transport. */
  readonly #transport: Pick<MailTransport, 'probe' | 'close'>
  readonly #lifeMs: number
  #last: { at: number; status: CheckStatus } | undefined
  #running: Promise<CheckStatus> | undefined

  constructor(transport: Pick<MailTransport, 'probe' | 'close'>, lifeMs = PROBE_LIFE_MS) {
    this.#transport = transport
    this.#lifeMs = lifeMs
  }

  /** The last answer while it is fresh, or the next one. */
  status(): Promise<CheckStatus> {
    if (this.#last && performance.now() - this.#last.at < this.#lifeMs) return Promise.resolve(this.#last.status)
    this.#running ??= this.#ask().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  close(): void {
    this.#transport.close()
  }

  async #ask(): Promise<CheckStatus> {
    const status = await this.#transport.probe().then(
      (): CheckStatus => 'ok',
      (): CheckStatus => 'error',
    )
    this.#last = { at: performance.now(), status }
    return status
  }
}
