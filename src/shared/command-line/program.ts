/** A program of commands: finds the one that is meant, reads its options, runs it and sets the exit code. */

import sade, { type Sade } from 'sade'
import { type Options, type Raw, readOptions, UsageError, type Values } from './options.ts'
import { printable } from './printable.ts'

export interface Command<O extends Options = Options> {
  /** Its words, then its `<arguments>`; empty for a program of one command. */
  usage: string
  about: string | readonly string[]
  options?: O
  examples?: readonly string[]
  /** Whether words may follow the arguments; else the option that such a word may be meant for. */
  further?: true | `--${string}`
  isDefault?: true
  /** Goes on, and only its own help shows it. */
  isFormer?: true
  /** @returns the exit code */
  run(values: Values<O>, words: readonly string[], raw: Raw): Promise<number>
}

export interface Program {
  name: string
  /** How it is started, where that is not its name. */
  typedAs?: string
  version: string
  about?: readonly string[]
  /** Of every command. */
  options?: Options
  commands: readonly Command[]
  /** Former first words of commands → today's. */
  aliases?: Readonly<Record<string, string>>
  /** After an error that is none of usage; 1 without it. */
  exitCodeOf?(error: unknown): Promise<number>
}

/** Lets the options of a command give its values their types. */
export function command<O extends Options>(one: Command<O>): Command {
  return one as unknown as Command
}

export async function runProgram(program: Program, typed: readonly string[]): Promise<void> {
  const { name, typedAs = name, commands, aliases = {} } = program
  const all = Object.assign({}, program.options, ...commands.map(({ options }) => options)) as Options
  const argv = withValues(typed, all)
  const [flags, words] = [argv.filter((word) => word.startsWith('-')), argv.filter((word) => /^[^-]/.test(word))]
  const [first = ''] = words
  if (Object.hasOwn(aliases, first)) words[0] = aliases[first] as string
  const isMeant = (one: Command) => wordsOf(one).every((word, at) => words[at] === word)
  const chosen = commands.find((one) => (words.length === 0 && one.isDefault) || isMeant(one))
  const group = chosen ? [] : commands.filter(({ usage }) => usage.startsWith(`${words[0]} `))
  try {
    if (flags.some((flag) => QUESTIONS.includes(flag))) {
      const isAsked = words.length > 0
      const current = commands.filter(({ isFormer = false }) => isAsked || !isFormer)
      const shown = group.length > 0 ? { ...program, about: [], commands: group } : { ...program, commands: current }
      parserOf(shown).parse(['', '', ...(group.length > 0 ? [] : words), ...flags])
      process.exitCode = 0
    } else if (chosen) process.exitCode = await run(program, chosen, words, flags)
    else {
      const word = words.slice(0, 2).join(' ')
      const isShort = group.length > 0 && words.length === 1
      const message = isShort ? `${word} needs one more word` : `unknown command: ${word}`
      const at = group.length > 0 ? 1 : 0
      const known = (at === 1 ? group : commands).map((one) => wordsOf(one)[at] ?? '')
      throw new UsageError(message, { word: words[at] ?? '', known })
    }
  } catch (error) {
    const { message, stack, meant } = error as UsageError
    const isUsage = error instanceof UsageError
    const near = meant && (await import('../config-file/suggest.ts')).nearest(meant.word, meant.known)
    const topic = [typedAs, ...(chosen ? wordsOf(chosen) : words.slice(0, Math.min(group.length, 1)))].join(' ')
    const advice = isUsage ? `${near === undefined ? '' : `; did you mean ${near}?`}; see ${topic} --help` : ''
    const told = flags.includes('--debug') && !isUsage ? stack : message
    process.stderr.write(`${name}: ${printable(String(told))}${advice}\n`)
    process.exitCode = isUsage ? 2 : ((await program.exitCodeOf?.(error)) ?? 1)
  }
}

const QUESTIONS = ['-h', '--help', '-v', '--version']
const wordsOf = ({ usage }: Command) => usage.split(' ').filter((word) => /^[^<]/.test(word))

async function run(program: Program, chosen: Command, words: readonly string[], flags: readonly string[]) {
  const given = argumentsOf(chosen, words)
  const own: Options = { ...program.options, ...chosen.options }
  const names = Object.keys(own)
  const parsed = parserOf(program).parse(['', '', ...words, ...flags], {
    lazy: true,
    string: names.filter((name) => own[name]?.kind !== 'switch'),
    boolean: names.filter((name) => own[name]?.kind === 'switch'),
    unknown(word) {
      throw new UsageError(`unknown option: ${word}`, { word, known: names.map((name) => `--${name}`) })
    },
  })
  const raw = parsed.args.at(-1) as unknown as Raw
  return chosen.run(readOptions(own, raw), given, raw)
}

/** Joins options and values: the parser takes `-1` for an option, and a word behind a switch for its value. */
function withValues(typed: readonly string[], options: Options): string[] {
  const switches = Object.entries(options).flatMap(([name, { kind, letter }]) =>
    kind === 'switch' ? [`--${name}`, `-${letter}`] : [],
  )
  const argv: string[] = []
  for (let at = 0; at < typed.length; at++) {
    const [word = '', next = ''] = typed.slice(at)
    const mayTake = /^--?[a-z][^=]*$/i.test(word) && !switches.includes(word) && !QUESTIONS.includes(word)
    argv.push(mayTake && /^(?:[^-]|-\d|-$)/.test(next) ? `${word}=${typed[++at]}` : word)
  }
  return argv
}

function parserOf({ name, typedAs = name, version, about = [], options = {}, commands }: Program): Sade {
  const isSingle = commands[0]?.usage === ''
  // The parser itself takes no name of several words.
  const parser = Object.assign(sade('program', isSingle), { bin: typedAs }).version(version)
  const add = (table: Options) => {
    for (const [option, { sentence, fallback, letter }] of Object.entries(table))
      parser.option(`${letter ? `-${letter}, ` : ''}--${option}`, sentence, fallback)
  }
  if (about.length > 0) parser.describe([...about])
  add(options)
  for (const { usage, about: sentences, options: own = {}, examples = [], isDefault = false } of commands) {
    if (!isSingle) parser.command(usage, '', { default: isDefault })
    parser.describe(typeof sentences === 'string' ? sentences : [...sentences]).action(() => undefined)
    add(own)
    for (const example of examples) parser.example(example)
  }
  return parser
}

function argumentsOf(chosen: Command, words: readonly string[]): readonly string[] {
  const given = words.slice(wordsOf(chosen).length)
  const wanted = chosen.usage.match(/<[^>]+>/g) ?? []
  if (given.length < wanted.length)
    throw new UsageError(`${wordsOf(chosen).join(' ')} needs ${wanted.slice(given.length).join(' ')}`)
  const extra = given[wanted.length]
  if (extra === undefined || chosen.further === true) return given
  throw new UsageError(
    `one word too many: ${extra}${chosen.further ? `; did you mean ${chosen.further} ${extra}?` : ''}`,
  )
}
