/** Options of commands, made from the filters of a resource: a filter's sentence is the help, and its kind checks the value. */

import {
  type Choices,
  type Filter,
  type Filters,
  type FilterTexts,
  isChoice,
  valuesOf,
} from '../../admin/resources/filter.ts'
import { type Option, type Options, optional, several } from '../../shared/command-line.ts'
import { oneOf, text } from '../values.ts'

type Typed<F extends Filter> = F['kind'] extends 'serials'
  ? string[]
  : F['kind'] extends Choices
    ? keyof F['kind'] & string
    : string
type OptionsOf<F extends Filters> = { readonly [N in keyof F & string]: Option<Typed<F[N]> | undefined> }

/** By the members of the query; `byOptionName` gives them the names of options. */
export const optionsOf = <F extends Filters>(filters: F): OptionsOf<F> =>
  Object.fromEntries(Object.entries(filters).map(([name, filter]) => [name, optionOf(filter)])) as OptionsOf<F>

function optionOf({ kind, says }: Filter): Option<unknown> {
  const sentence = says.replaceAll('`', '').replace(/\.$/, '')
  if (kind === 'serials') return several(`${sentence}; may be given several times`, text)
  if (isChoice(kind)) return choiceOf(valuesOf(kind), sentence)
  return kind === 'flag' ? choiceOf(['true', 'false'], sentence) : optional(sentence, text)
}

export const choiceOf = <const K extends readonly string[]>(values: K, sentence: string) =>
  optional(`${values.slice(0, -1).join(', ')} or ${values.at(-1)}. ${sentence}`, oneOf(values))

/** The members that a command line gives, for a query or body. */
export function givenOf<F extends Filters>(filters: F, values: object): FilterTexts<F> {
  const given = values as Readonly<Record<string, unknown>>
  const members = Object.keys(filters).map((name) => [name, given[optionName(name)]] as const)
  return Object.fromEntries(
    members.filter(([, value]) => value !== undefined && String(value) !== ''),
  ) as FilterTexts<F>
}

/** The option for a member: `expires_at` becomes `--expires-at`. */
export const optionName = (member: string) => member.replaceAll('_', '-')

export const byOptionName = (fields: object): Options =>
  Object.fromEntries(Object.entries(fields).map(([member, one]) => [optionName(member), one]))
