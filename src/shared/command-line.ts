/** Programs of commands: sade parses them and answers --help. An error is one sentence and an exit code. */

import { fstatSync, writeSync } from 'node:fs'
import sade from 'sade'
import { printable } from './lib/terminal.ts'

/** The command line is wrong. Its cause is a word that may be near to one that is known. */
export class UsageError extends Error {
  readonly exitCode = 2
}

export interface Option<T> {
  sentence: string
  /** @throws Error saying what the option takes */
  read: (text: string) => T
  fallback?: string | number
  /** A switch takes no value; several may be given more than once. */
  kind?: 'switch' | 'several'
  letter?: string
}
type Read<T> = Option<T>['read']
export type Options = Readonly<Record<string, Option<unknown>>>
/** Undefined for what was not given and has no default. */
export type Values<O extends Options> = { [K in keyof O]: O[K] extends Option<infer T> ? T : never }
/** The parser leaves it so. */
export type Raw = Readonly<Record<string, unknown>>

const isTrue = (text: string) => text !== 'false'
export const option = <T>(sentence: string, read: Read<T>, fallback: string | number) => ({ sentence, read, fallback })
export const optional = <T>(sentence: string, read: Read<T>): Option<T | undefined> => ({ sentence, read })
export const isGiven = (sentence: string): Option<boolean> => ({ sentence, read: isTrue, kind: 'switch' })
export const several = <T>(sentence: string, read: Read<T>) =>
  ({ sentence, read, kind: 'several' }) as object as Option<T[]>

export interface Command<O extends Options = Options> {
  /** Its words, then its `<arguments>`; empty for a program of one command. */
  usage: string
  about: string | readonly string[]
  options?: O
  examples?: readonly string[]
  /** Whether words may follow the arguments; else the option that such a word may be meant for. */
  further?: true | `--${string}`
  isDefault?: true
  /** @returns the exit code */
  run(values: Values<O>, words: readonly string[], raw: Raw): Promise<number>
}
/** Lets the options of a command give its values their types. */
export const command = <O extends Options>(one: Command<O>): Command => one

export interface Program {
  name: string
  version: string
  about?: readonly string[]
  commands: readonly Command[]
}

const STANDARD_OUTPUT = 1
const QUESTIONS = ['-h', '--help', '-v', '--version']
const wordsOf = ({ usage }: Command) => usage.split(' ').filter((word) => /^[^<]/.test(word))

/** Ends with the exit code of the command or of its error; 1 where the error has none. */
export async function runProgram(program: Program, typed: readonly string[]): Promise<void> {
  requireOutput(program.name)
  const { name, commands } = program
  const [words, flags] = wordsAndFlags(program, typed)
  const isQuestion = flags.some((flag) => QUESTIONS.includes(flag))
  const isMeant = (one: Command) => wordsOf(one).every((word, at) => words[at] === word)
  const chosen = commands.find((one) => isMeant(one) || (one.isDefault && words.length === 0 && !isQuestion))
  const group = commands.filter((one) => one.usage.startsWith(`${words[0]} `))
  const shown = chosen ? [chosen] : group.length > 0 ? group : commands
  const topic = chosen ? wordsOf(chosen) : words.slice(0, Math.sign(group.length))
  const own = chosen?.options ?? {}
  try {
    const typedWords = chosen ? withNamed(chosen, words, flags) : words
    const given = isQuestion ? [] : argumentsOf(chosen, typedWords, topic)
    const line = ['', '', ...(chosen ? topic : []), ...given, ...flags]
    const unknown = (cause: string) => {
      throw new UsageError(`unknown option: ${cause}`, { cause })
    }
    const parsed = parserOf(program, shown).parse(line, { lazy: true, string: Object.keys(own), unknown })
    const raw = parsed?.args.at(-1) as unknown as Raw | undefined
    process.exitCode = chosen && raw ? await chosen.run(readOptions(own, raw), given, raw) : 0
  } catch (error) {
    const { message, stack, cause, exitCode = 1 } = error as Error & { exitCode?: number }
    const isUsage = error instanceof UsageError
    const known = chosen ? Object.keys(own).map((one) => `--${one}`) : shown.map((one) => wordsOf(one)[topic.length]!)
    const near = isUsage && cause && (await import('./config-file/suggest.ts')).nearest(String(cause), known)
    const advice = `${near ? `; did you mean ${near}?` : ''}; see ${[name, ...topic].join(' ')} --help`
    const told = isUsage ? message + advice : flags.includes('--debug') ? stack : message
    process.stderr.write(`${name}: ${printable(String(told))}\n`)
    process.exitCode = exitCode
  }
}

/**
 * Output that a full disk refuses is an error of the command. A reader that has gone, such as `head`, has what it wanted.
 * `process.stdout` also makes a pipe one that does not block, as `lib/log-output.ts` needs it.
 */
function requireOutput(name: string): void {
  let isTold = false
  process.stderr.on('error', () => undefined)
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (isTold || error.code === 'EPIPE') return
    isTold = true
    process.stderr.write(`${name}: cannot write to standard output: ${error.message}\n`)
    process.once('exit', () => {
      process.exitCode ||= 1
    })
  })
  // A nearly full disk takes a part and reports no error (write(2)). For a file, Node.js does not write the rest.
  if (fstatSync(STANDARD_OUTPUT).isFile()) process.stdout._write = writeWhole
}

function writeWhole(bytes: Buffer, _encoding: string, done: (error?: Error) => void): void {
  try {
    for (let rest = bytes; rest.length > 0; ) rest = rest.subarray(writeSync(STANDARD_OUTPUT, rest))
    done()
  } catch (error) {
    done(error as Error)
  }
}

/** Flags with their values: the parser takes `-1` for an option, and a word behind a switch for its value. */
function wordsAndFlags({ commands }: Program, typed: readonly string[]): [words: string[], flags: string[]] {
  const all: Options = Object.assign({}, ...commands.map((one) => one.options))
  const known = Object.entries(all).flatMap(([name, { letter }]) => [`--${name}`, `-${letter}`])
  const firstWords = commands.map((one) => wordsOf(one)[0])
  const switches = Object.keys(all).filter((name) => all[name]?.kind === 'switch')
  const alone = [...QUESTIONS, ...switches.flatMap((name) => [`--${name}`, `-${all[name]?.letter}`])]
  const [words, flags]: [string[], string[]] = [[], []]
  for (const [at, word] of typed.entries()) {
    const flag = typed[at - 1] ?? ''
    // After an unknown option the name of a command is no value, so that the error is about the option.
    const isCommand = words.length === 0 && firstWords.includes(word) && !known.includes(flag)
    const isFree = !alone.includes(flag) && !isCommand
    const isValue = /^--?[a-z][^=]*$/i.test(flag) && isFree && /^(?:[^-]|-\d|-?$|-----BEGIN )/.test(word)
    if (isValue) flags.push(`${flags.pop()}=${word}`)
    else if (word.startsWith('-')) flags.push(word)
    else words.push(word)
  }
  return [words, flags]
}

/** An argument may be given as an option of its name, as a sibling command takes it. The option leaves the flags. */
function withNamed(chosen: Command, words: readonly string[], flags: string[]): string[] {
  const all = [...words]
  const names = (chosen.usage.match(/<[^>]+>/g) ?? []).map((name) => `--${name.slice(1, -1)}=`)
  for (const name of names.slice(words.length - wordsOf(chosen).length)) {
    const at = flags.findIndex((flag) => flag.startsWith(name))
    if (at < 0) break
    all.push(...flags.splice(at, 1).map((flag) => flag.slice(name.length)))
  }
  return all
}

/** @throws UsageError for a word that is unknown, missing or too many */
function argumentsOf(chosen: Command | undefined, words: readonly string[], topic: readonly string[]): string[] {
  const given = words.slice(topic.length)
  if (!chosen && given[0]) throw new UsageError(`unknown command: ${words.slice(0, 2).join(' ')}`, { cause: given[0] })
  const wanted = chosen ? (chosen.usage.match(/<[^>]+>/g) ?? []) : ['one more word']
  const [missing, extra] = [wanted.slice(given.length), given[wanted.length]]
  if (missing.length > 0) throw new UsageError(`${topic.join(' ') || 'this'} needs ${missing.join(' ')}`)
  if (extra === undefined || chosen?.further === true) return given
  const advice = chosen?.further ? `; did you mean ${chosen.further} ${extra}?` : ''
  throw new UsageError(`one word too many: ${extra}${advice}`)
}

function parserOf({ name, version, about = [], commands }: Program, shown: readonly Command[]) {
  const parser = sade(name, shown[0]?.usage === '').version(version)
  if (shown === commands) parser.describe([...about])
  for (const { usage, about, options = {}, examples = [] } of shown) {
    if (usage !== '') parser.command(usage)
    parser.describe(about as string | string[])
    for (const [option, { sentence, fallback, letter }] of Object.entries(options))
      parser.option(`${letter ? `-${letter}, ` : ''}--${option}`, sentence, fallback)
    for (const example of examples) parser.example(example)
  }
  return parser
}

/** @throws UsageError naming everything that is wrong */
export function readOptions<O extends Options>(options: O, raw: Raw): Values<O> {
  const errors: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, { read, kind, fallback }] of Object.entries(options)) {
    const given = [raw[name] ?? fallback ?? []].flat()
    try {
      if (kind === undefined && given.length > 1) throw new Error('is given twice')
      const all = given.map((text) => read(String(text)))
      values[name] = kind === 'several' ? all : kind === 'switch' ? all.includes(true) : all[0]
    } catch (error) {
      errors.push(`--${name}${given.length === 1 && given[0] ? ` ${given}` : ''}: ${(error as Error).message}`)
    }
  }
  if (errors.length > 0) throw new UsageError(errors.join('\n'))
  return values as Values<O>
}
