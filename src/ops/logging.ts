/** The log: pino to standard output, as JSON lines or as text for people. Secrets are redacted by name. */

import { existsSync, readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'
import pino, { type DestinationStream, type Logger } from 'pino'
import { LINES_LOST, LogOutput } from '../shared/lib/log-output.ts'
import { INSTALLATION } from '../shared/lib/program-files.ts'
import type { Metrics } from './metrics.ts'

interface LogSettings {
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

/** A position in a stack trace; the bundle that runs has a map beside it, which is packed in an installation. */
const POSITION = /file:\/\/[^\s()]+\.js:\d+:\d+/g
/** A map takes up to 30 ms to read, so clients that cause errors must not cause readings. */
const MOST_KNOWN = 1_000
const BETWEEN_READINGS_MS = 10_000

const known = new Map<string, string>()
let readAt = Number.NEGATIVE_INFINITY

/** @returns the trace; a position stays where there is no map, or where another map was read a moment ago */
export function sourcePositions(stack: string): string {
  const positions = [...new Set(stack.match(POSITION))].filter((position) => !known.has(position))
  const now = performance.now()
  if (positions.length > 0 && now - readAt > BETWEEN_READINGS_MS && known.size < MOST_KNOWN) {
    readAt = now
    const maps = new Map<string, SourceMap | undefined>()
    for (const position of positions) known.set(position, sourceOf(position, maps))
  }
  return stack.replace(POSITION, (position) => known.get(position) ?? position)
}

function sourceOf(position: string, maps: Map<string, SourceMap | undefined>): string {
  const [, url = '', line, column] = /^(.*):(\d+):(\d+)$/.exec(position) ?? []
  const file = fileURLToPath(url)
  if (!maps.has(file)) maps.set(file, readMap(file))
  const origin = maps.get(file)?.findOrigin(Number(line), Number(column))
  if (!origin || !('fileName' in origin)) return position
  const source = path.relative(INSTALLATION, path.resolve(path.dirname(file), origin.fileName))
  return `${source}:${origin.lineNumber}:${origin.columnNumber}`
}

function readMap(file: string): SourceMap | undefined {
  try {
    const packed = `${file}.map.br`
    const text = existsSync(packed) ? brotliDecompressSync(readFileSync(packed)) : readFileSync(`${file}.map`)
    return new SourceMap(JSON.parse(text.toString()))
  } catch {
    // A file of Node or of a package has none.
    return undefined
  }
}
