/** The log: pino to standard output, one JSON object a line or text for people; secrets are cut out by name. */

import pino, { type DestinationStream, type Logger } from 'pino'

export interface LogSettings {
  level: 'DEBUG' | 'INFO' | 'WARNING' | 'ERROR' | 'CRITICAL'
  format: 'json' | 'human'
}

export const PINO_LEVELS = { DEBUG: 'debug', INFO: 'info', WARNING: 'warn', ERROR: 'error', CRITICAL: 'fatal' } as const

/** Wherever one of these members appears, up to two levels deep, its value is not written. */
const SECRET_MEMBERS = new Set([
  'password',
  'secret',
  'pin',
  'token_secret',
  'hmac_key',
  'eab_hmac_key',
  'auth_value',
  'authorization',
  'd',
])
const SECRET_LEVELS = 2
const CENSOR = '[redacted]'

/** Lines gather up to this many bytes before a front thread writes them; the rest follows within a second. */
const BUFFER_BYTES = 8192
/** What a process that is killed has not written is lost; lines with an event are what people look for afterwards. */
const EVENT_FLUSH_MS = 10

/**
 * @param thread its name, in every line.
 * @param buffered for front threads, where a write for every request would cost more than the line.
 */
export function createLogger(settings: LogSettings, thread: string, buffered: boolean): { log: Logger; flush(): void } {
  const destination = pino.destination({ fd: 1, sync: !buffered, minLength: buffered ? BUFFER_BYTES : 0 })
  const stream = settings.format === 'human' ? humanStream(destination) : destination
  const log = pino(
    {
      level: PINO_LEVELS[settings.level],
      base: { thread },
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }), log: withoutSecrets },
      // An error becomes plain facts only here, and may carry anything.
      serializers: { err: (error) => withoutSecrets(pino.stdSerializers.err(error), SECRET_LEVELS - 1) },
    },
    buffered ? eventsSoon(stream, () => destination.flush()) : stream,
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

/**
 * The same log at any level, for the few lines in the life of a process that its operator looks for whatever else is written: it is
 * ready, it stops, it has done what a signal asked for. Their own level stays what it is, since the severe ones call people.
 */
export function lifeLog(log: Logger): Logger {
  const life = log.child({})
  // Set here, because a child that is made with the level its parent has just then goes on following the parent.
  life.level = 'info'
  return life
}

/**
 * The facts, or a copy where there was something to hide. Written out here because the redaction of pino takes 50 µs for each
 * line with paths that begin with a wildcard, more than all the rest of a short request; this takes well below one.
 */
function withoutSecrets<T extends object>(facts: T, levels = SECRET_LEVELS): T {
  let shown: Record<string, unknown> | undefined
  for (const [name, value] of Object.entries(facts)) {
    if (value instanceof Error && name === 'err') continue // its serializer comes later
    const kept = SECRET_MEMBERS.has(name) ? CENSOR : withoutSecretsBelow(value, levels - 1)
    if (kept === value) continue
    shown ??= (Array.isArray(facts) ? [...facts] : { ...facts }) as Record<string, unknown>
    shown[name] = kept
  }
  return (shown ?? facts) as T
}

function withoutSecretsBelow(value: unknown, levels: number): unknown {
  if (typeof value !== 'object' || value === null || levels < 0 || ArrayBuffer.isView(value)) return value
  const plain = 'toJSON' in value && typeof value.toJSON === 'function' ? (value.toJSON() as unknown) : value
  return typeof plain === 'object' && plain !== null ? withoutSecrets(plain, levels) : plain
}

function eventsSoon(stream: DestinationStream, flush: () => void): DestinationStream {
  let timer: NodeJS.Timeout | undefined
  const flushNow = () => {
    timer = undefined
    flush()
  }
  return {
    write(line) {
      stream.write(line)
      // A quotation mark of a value is escaped, so this is a member.
      if (timer === undefined && line.includes('"event":')) timer = setTimeout(flushNow, EVENT_FLUSH_MS).unref()
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
