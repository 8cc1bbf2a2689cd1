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
import { bashCompletion, fishCompletion, zshCompletion } from './completion.ts'

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
