/** A manual page in the macros of man(7). */

import type { Command, Option, Program } from '../../src/shared/command-line.ts'

export interface PageFacts {
  /** Behind the name, as apropos(1) lists it. */
  summary: string
  /** Path → what it holds. */
  files: Record<string, string>
  /** Pages such as `chancery(1)`. */
  others: readonly string[]
}

export function manualPage({ name, version, about = [], commands }: Program, facts: PageFacts): string {
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
