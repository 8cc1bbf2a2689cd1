/**
 * The log: pino to standard output, as JSON lines or as text for people. Secrets are redacted by
 * name.
 */

import pino, { type DestinationStream, type Logger } from 'pino'
import { LINES_LOST, LogOutput } from '../shared/lib/log-output.ts'
import type { Metrics } from './metrics.ts'
import { sourcePositions } from './source-positions.ts'

export interface LogSettings {
  level: 'DEBUG' | 'INFO' | 'WARNING' | 'ERROR' | 'CRITICAL'
  format: 'json' | 'human'
}

export const PINO_LEVELS = { DEBUG: 'debug', INFO: 'info', WARNING: 'warn', ERROR: 'error', CRITICAL: 'fatal' } as const

/** Values of these members are redacted, down to two levels. */
const SECRET_MEMBERS = new Set([
  'password',
  // The parameters of a statement: slonik's errors carry them.
  'values',
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

/** A front thread buffers up to this many bytes, for at most a second. */
const BUFFER_BYTES = 8192
/** A killed process loses its buffer, so lines with an event are flushed this soon. */
const EVENT_FLUSH_MS = 10

interface LogOptions {
  /** For front threads, where a write per request costs more than the line. */
  buffered?: boolean
  metrics?: Pick<Metrics, 'logLinesDropped'>
}

/** @param thread the thread's name, written in every line */
export function createLogger(
  settings: LogSettings,
  thread: string,
  { buffered = false, metrics }: LogOptions = {},
): { log: Logger; flush(): void } {
  const output = new LogOutput(buffered ? BUFFER_BYTES : 0, {
    dropped: (lines) => metrics?.logLinesDropped.inc(lines),
    resumed: (lost) => lifeLog(log).warn({ lost }, LINES_LOST),
  })
  const stream = settings.format === 'human' ? humanStream(output) : output
  const log = pino(
    {
      level: PINO_LEVELS[settings.level],
      base: { thread },
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }), log: withoutSecrets },
      // An error becomes a plain object only here, and may contain secrets.
      serializers: { err: (error) => withoutSecrets(plainError(error), SECRET_LEVELS - 1) },
    },
    buffered ? eventsSoon(stream, () => output.flush()) : stream,
  )
  const timer = buffered ? setInterval(() => output.flush(), 1000).unref() : undefined
  return {
    log,
    flush() {
      clearInterval(timer)
      output.end()
    },
  }
}

function plainError(error: Error) {
  const plain = pino.stdSerializers.err(error)
  return plain.stack === undefined ? plain : { ...plain, stack: sourcePositions(plain.stack) }
}

/**
 * The log at any level, for the lines an operator always needs: ready, stopping, signal handled.
 * The lines keep their own level, because severe levels alert people.
 */
export function lifeLog(log: Logger): Logger {
  const life = log.child({})
  // Set here: a child created with its parent's level keeps following the parent.
  life.level = 'info'
  return life
}

/**
 * Returns the facts, or a copy with secrets redacted. pino's own redaction with wildcard paths
 * takes 50 µs per line; this takes well below 1 µs.
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
      // Quotation marks inside values are escaped, so this match is a member name.
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

/** Clients choose paths, so control characters could steer the reader's terminal or forge lines. */
function escapeControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`)
}
