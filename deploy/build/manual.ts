/**
 * Manual pages in the macros of man(7), and completions, of both programs. They are made from the tables that their
 * command lines use.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { SIGNER_PROGRAM } from '../../signer/program.ts'
import { localProgram } from '../../src/cli/program.ts'
import { PATHS } from '../../src/installation/places.ts'
import type { Command, Option, Program } from '../../src/shared/command-line.ts'

const FACTS: Record<string, PageFacts> = {
  chancery: {
    summary: 'ACME certificate authority server',
    files: {
      [PATHS.config]: 'The configuration of the service',
      [PATHS.serviceEnv]: 'Variables that it names, one NAME=value a line',
      [PATHS.serviceState]: 'What the service writes itself',
    },
    others: ['chancery-signer(1)', 'systemctl(1)', 'psql(1)'],
  },
  'chancery-signer': {
    summary: 'holds the keys of a certificate authority and signs what its policy allows',
    files: {
      [PATHS.signerConfig]: 'The configuration of the signer',
      [PATHS.signerState]: 'The audit chain, and records of what was signed',
      [PATHS.socket]: 'The socket on which the service asks for signatures',
    },
    others: ['chancery(1)', 'systemctl(1)'],
  },
}

/** The folder gets the layout of /usr/share. */
export async function writeManual(folder: string): Promise<void> {
  for (const program of [await localProgram([]), SIGNER_PROGRAM]) {
    for (const [file, text] of Object.entries(manualOf(program))) {
      const target = path.join(folder, file)
      mkdirSync(path.dirname(target), { recursive: true })
      writeFileSync(target, text)
    }
  }
}

function manualOf(program: Program): Record<string, string> {
  const { name } = program
  return {
    [`man/man1/${name}.1`]: manualPage(program, FACTS[name]!),
    [`bash-completion/completions/${name}`]: bashCompletion(program),
    [`zsh/vendor-completions/_${name}`]: zshCompletion(program),
    [`fish/vendor_completions.d/${name}.fish`]: fishCompletion(program),
  }
}

interface PageFacts {
  /** Behind the name, as apropos(1) lists it. */
  summary: string
  /** Path → what it holds. */
  files: Record<string, string>
  /** Pages such as `chancery(1)`. */
  others: readonly string[]
}

function manualPage({ name, version, about = [], commands }: Program, facts: PageFacts): string {
  const examples = commands.flatMap((one) => one.examples ?? [])
  return lines(
    `.TH ${name.toUpperCase()} 1 "" "chancery ${version}" "Chancery"`,
    ...section('NAME', `${text(name)} \\- ${text(facts.summary)}`),
    ...section('SYNOPSIS', `.B ${text(name)}`, '.I command', '[\\fIoption\\fR ...]'),
    ...section('DESCRIPTION', ...paragraphs(about)),
    ...section('COMMANDS', ...commands.flatMap((one) => commandLines(one))),
    ...section('EXAMPLES', ...examples.flatMap((example) => ['.PP', '.EX', text(`${name} ${example}`), '.EE'])),
    ...section('FILES', ...Object.entries(facts.files).flatMap(([file, holds]) => tagged(`.I ${text(file)}`, holds))),
    ...section('SEE ALSO', facts.others.map((other) => `.BR ${other.replace('(', ' (')}`).join(' ,\n')),
  )
}

function commandLines({ usage, about, options = {} }: Command): string[] {
  const flags = Object.entries(options).flatMap(([flag, option]) =>
    tagged(`.B ${flagText(flag, option)}`, told(option)),
  )
  const nested = flags.length > 0 ? ['.RS', ...flags, '.RE'] : []
  return ['.TP', `.B ${text(usage)}`, ...paragraphs([about].flat(), '.IP'), ...nested]
}

function flagText(flag: string, { letter, kind }: Option<unknown>): string {
  const name = letter ? `-${letter}, --${flag}` : `--${flag}`
  return text(name) + (kind === 'switch' ? '' : ' \\fIvalue\\fR')
}

const told = ({ sentence, fallback }: Option<unknown>) =>
  fallback === undefined ? sentence : `${sentence} (default: ${fallback})`

const section = (title: string, ...content: readonly string[]) =>
  content.length > 0 ? [`.SH ${title}`, ...content] : []
const tagged = (tag: string, body: string) => ['.TP', tag, text(body)]

/** @param sentences an empty one begins a paragraph */
function paragraphs(sentences: readonly string[], macro = '.PP'): string[] {
  return sentences.map((sentence) => (sentence === '' ? macro : text(sentence)))
}

/** A hyphen that may be copied, and no line that troff takes for a request. */
function text(value: string): string {
  const escaped = value.replaceAll('\\', '\\e').replaceAll('-', '\\-')
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped
}

const lines = (...all: readonly string[]) => `${all.join('\n')}\n`

/** Words typed so far, joined by spaces → what may follow. */
type Choices = Map<string, { words: Map<string, string>; options: Map<string, string> }>

/** A completion offers the next word of a command behind the words typed so far, and its options. */
function choicesOf({ commands }: Program): Choices {
  const choices: Choices = new Map()
  const at = (typed: string) => {
    const known = choices.get(typed) ?? { words: new Map<string, string>(), options: new Map<string, string>() }
    choices.set(typed, known)
    return known
  }
  for (const one of commands) {
    const words = one.usage.split(' ').filter((word) => /^[^<]/.test(word))
    for (const [index, word] of words.entries()) {
      const { words: next } = at(words.slice(0, index).join(' '))
      const isLast = index === words.length - 1
      if (isLast || !next.has(word)) next.set(word, isLast ? summaryOf(one) : '')
    }
    const { options } = at(words.join(' '))
    for (const [name, { sentence }] of Object.entries(one.options ?? {})) options.set(`--${name}`, sentence)
    options.set('--help', 'Show what the command does')
  }
  return choices
}

const summaryOf = ({ about }: Command) => [about].flat()[0] ?? ''
const quoted = (value: string) => `'${value.replaceAll("'", "'\\''")}'`
const functionName = (program: string) => `_${program.replaceAll('-', '_')}`

/** Options with their values are no words of a command; where a value is meant, files are offered. */
function bashCompletion(program: Program): string {
  const cases = [...choicesOf(program)].map(
    ([typed, { words, options }]) =>
      `    ${quoted(typed)}) words=${quoted([...words.keys()].join(' '))} options=${quoted([...options.keys()].join(' '))} ;;`,
  )
  return `# bash completion for ${program.name}
${functionName(program.name)}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} typed='' words='' options='' word before=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    if [[ $word != -* && $before != -?* ]]; then typed+=\${typed:+ }$word; fi
    before=$word
  done
  case $typed in
${cases.join('\n')}
  esac
  COMPREPLY=()
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $words && $previous != -?* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -o default -F ${functionName(program.name)} ${program.name}
`
}

function zshCompletion(program: Program): string {
  const described = (all: Map<string, string>) =>
    [...all].map(([word, about]) => quoted(`${word.replaceAll(':', '\\:')}:${about}`)).join(' ')
  const cases = [...choicesOf(program)].map(
    ([typed, { words, options }]) =>
      `  ${quoted(typed)}) next=(${described(words)}) options=(${described(options)}) ;;`,
  )
  return `#compdef ${program.name}
local -a next options
local typed='' before='' word
for word in \${words[2,CURRENT-1]}; do
  if [[ $word != -* && $before != -?* ]]; then typed+="\${typed:+ }$word"; fi
  before=$word
done
case $typed in
${cases.join('\n')}
esac
if [[ $PREFIX == -* ]]; then
  _describe -o option options
elif [[ -n $next && $words[CURRENT-1] != -?* ]]; then
  _describe command next
else
  _files
fi
`
}

function fishCompletion(program: Program): string {
  const { name } = program
  const isAt = `_${functionName(name)}_at`
  const rows = [...choicesOf(program)].flatMap(([typed, { words, options }]) => {
    const condition = `-n ${quoted(`${isAt} ${quoted(typed)}`)}`
    return [
      ...[...words].map(
        ([word, about]) => `complete -c ${name} -f ${condition} -a ${quoted(word)} -d ${quoted(about)}`,
      ),
      ...[...options].map(
        ([flag, about]) => `complete -c ${name} ${condition} -l ${flag.slice(2)} -d ${quoted(about)}`,
      ),
    ]
  })
  return `# fish completion for ${name}
function ${isAt} --description 'Whether exactly these words of a command are typed'
  set -l typed
  set -l before ''
  for word in (commandline -opc)[2..]
    if not string match -q -- '-*' $word; and not string match -q -- '-?*' $before
      set -a typed $word
    end
    set before $word
  end
  test "$typed" = "$argv[1]"
end
${rows.join('\n')}
`
}
