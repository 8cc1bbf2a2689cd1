/** The log: pino to standard output, one JSON object a line or text for people; secrets are cut out by name. */

import pino, { type DestinationStream, type Logger } from 'pino'

export interface LogSettings {
  level: 'DEBUG' | 'INFO' | 'WARNING' | 'ERROR' | 'CRITICAL'
  format: 'json' | 'human'
}

export const PINO_LEVELS = { DEBUG: 'debug', INFO: 'info', WARNING: 'warn', ERROR: 'error', CRITICAL: 'fatal' } as const

/** Wherever one of these members appears, up to two levels deep, its value is not written. */
const SECRET_MEMBERS = [
  'password',
  'secret',
  'pin',
  'token_secret',
  'hmac_key',
  'eab_hmac_key',
  'auth_value',
  'authorization',
  'd',
]
const REDACTED = SECRET_MEMBERS.flatMap((member) => [member, `*.${member}`, `*.*.${member}`])

/** Lines gather up to this many bytes before a front thread writes them; the rest follows within a second. */
const BUFFER_BYTES = 8192

/**
 * @param thread its name, in every line.
 * @param buffered for front threads, where a write for every request would cost more than the line.
 */
export function createLogger(settings: LogSettings, thread: string, buffered: boolean): { log: Logger; flush(): void } {
  const destination = pino.destination({ fd: 1, sync: !buffered, minLength: buffered ? BUFFER_BYTES : 0 })
  const log = pino(
    {
      level: PINO_LEVELS[settings.level],
      base: { thread },
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      redact: { paths: REDACTED, censor: '[redacted]' },
    },
    settings.format === 'human' ? humanStream(destination) : destination,
  )
  const timer = buffered ? setInterval(() => destination.flush(), 1000).unref() : undefined
  return {
    log,
    flush() {
      clearInterval(timer)
      destination.flushSync()
    },
  }
}

/** `12:03:04.512 info  front-1  message  key=value …` */
function humanStream(destination: DestinationStream): DestinationStream {
  return { write: (line) => destination.write(renderHuman(line)) }
}

const NO_FACTS = new Set(['level', 'timestamp', 'time', 'thread', 'message', 'stack'])

function renderHuman(line: string): string {
  const entry = JSON.parse(line) as Record<string, unknown>
  const facts = Object.entries(entry)
    .filter(([name]) => !NO_FACTS.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const head = `${String(entry.time).slice(11, 23)} ${String(entry.level).padEnd(5)} ${String(entry.thread).padEnd(10)}`
  return `${escapeControls(`${head} ${entry.message}${facts.length > 0 ? `  ${facts.join(' ')}` : ''}`)}\n`
}

/** Paths and the like are the client's: they must not steer the terminal of whoever reads, nor make lines of their own. */
function escapeControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`)
}
