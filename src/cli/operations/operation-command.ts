/** A command for one operation of the Admin API, or for several with different path parameters. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Described, Schema } from '../../admin/described.ts'
import { isGiven, type Option, type Options, optional, UsageError } from '../../shared/command-line.ts'
import { askPassword } from '../ask-password.ts'
import { text } from '../values.ts'
import type { Given, OperationCaller, Reply } from './caller.ts'
import { json, optionFor, SENTENCES } from './options.ts'
import { printReply, printRows } from './output.ts'
import type { SharedCommand } from './shared-command.ts'
import { NAMED, shownName, usageOf, type Words } from './words.ts'

type Definitions = Readonly<Record<string, Schema>>
type Values = Readonly<Record<string, unknown>>

const optionName = (member: string) => member.replaceAll('_', '-')
const bodyOf = ({ operation }: Described): Schema | undefined =>
  operation.requestBody?.content['application/json']?.schema
const namesIn = ({ operation }: Described, where: 'path' | 'query') =>
  operation.parameters.filter((parameter) => parameter.in === where).map(({ name }) => name)
const successOf = ({ operation }: Described) => Object.values(operation.responses)[0]?.content ?? {}

/** Members of the body that options stand for: those of `within` beside the others. */
function membersOf(one: Described, { within }: Words): Record<string, { schema: Schema; isRequired: boolean }> {
  const { properties = {}, required = [] } = bodyOf(one) ?? {}
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, schema]) =>
      name === within
        ? Object.entries(schema.properties ?? {}).map(([inner, one]) => [inner, { schema: one, isRequired: false }])
        : [[name, { schema, isRequired: required.includes(name) }]],
    ),
  )
}

export function operationCommand(
  wanted: Words,
  described: readonly Described[],
  definitions: Definitions,
): SharedCommand {
  const { usage, about, fixed = {}, fallback, further, anySchema, secret } = wanted
  const positional = [...usage.matchAll(/<(\w+)>/g)].map(([, name]) => name as string)
  const options = optionsOf(wanted, described, definitions, [
    ...positional,
    ...Object.keys(fixed),
    ...(secret === undefined ? [] : [secret]),
  ])
  // What a switch stands for is false without it.
  const isOff = ([name, value]: [string, unknown]) => value === false && options[name]?.kind === 'switch'
  return {
    usage: usageOf(wanted),
    about,
    options,
    ...(further && { further }),
    ...(anySchema && { anySchema }),
    async run(caller, values, given, config) {
      const named = positional.map((name, at) => [optionName(name), given[at]])
      const typed = Object.entries(values).filter((one) => one[1] !== undefined && !isOff(one))
      const asked = secret !== undefined && { [optionName(secret)]: await askPassword(secret.replaceAll('_', ' ')) }
      const all: Values = { ...fallback?.(config), ...Object.fromEntries([...typed, ...named]), ...asked }
      const chosen = choose(described, all)
      return perform(caller, chosen, await givenTo(caller, chosen, wanted, all), wanted, all)
    },
  }
}

function optionsOf(
  wanted: Words,
  described: readonly Described[],
  definitions: Definitions,
  without: readonly string[],
): Options {
  const options: Record<string, Option<unknown>> = {}
  for (const one of described) {
    for (const { name, in: where, schema, description, required: isNeeded } of one.operation.parameters) {
      const described = description === undefined ? explained(name, schema) : { ...schema, description }
      if (without.includes(name) || isName(one, name)) continue
      if (where === 'query') options[optionName(name)] = optionFor(described, definitions, isNeeded)
      else options[shownName(name)] = optional(`Of which ${shownName(name)}`, text)
    }
    for (const [name, { schema, isRequired }] of Object.entries(membersOf(one, wanted)))
      if (!without.includes(name))
        options[optionName(name)] = {
          ...optionFor(explained(name, schema), definitions, isRequired),
          ...sentenceOf(wanted, name),
        }
    if (bodyOf(one)) options['body'] = optional('All members as JSON, or @ and the name of a file', json)
    if (namesIn(one, 'query').includes('limit')) options['all'] = isGiven('Every page')
  }
  return options
}

/** Its own description goes first. */
function explained(name: string, schema: Schema): Schema {
  const description = SENTENCES[name]
  return description === undefined ? schema : { description, ...schema }
}

/** By a name the commands find an id; a list of one is shown by `show`. */
const isName = ({ operation: { operationId } }: Described, parameter: string) =>
  Object.values(NAMED).some(({ list, filter }) => list === operationId && filter === parameter)

function sentenceOf({ sentences }: Words, name: string): { sentence: string } | undefined {
  const sentence = sentences?.[name]
  return sentence === undefined ? undefined : { sentence }
}

/** The path parameter as a positional argument, or as an option. */
const pathValue = (values: Values, name: string) =>
  (values[optionName(name)] ?? values[shownName(name)]) as string | undefined

/** That whose path parameters are exactly those given. */
function choose(described: readonly Described[], values: Values): Described {
  const every = [...new Set(described.flatMap((one) => namesIn(one, 'path')))]
  const given = every.filter((name) => pathValue(values, name) !== undefined)
  const found = described.find((one) => namesIn(one, 'path').sort().join() === [...given].sort().join())
  if (found) return found
  const others = every.filter((name) => !given.includes(name)).map((name) => `--${shownName(name)}`)
  throw new UsageError(others.length > 0 ? `name one of ${others.join(', ')}` : 'too much is named')
}

async function givenTo(caller: OperationCaller, chosen: Described, wanted: Words, values: Values): Promise<Given> {
  const isThere = (name: string) => {
    const value = values[optionName(name)]
    return value !== undefined && !(Array.isArray(value) && value.length === 0)
  }
  const pick = (names: readonly string[]) =>
    Object.fromEntries(names.filter(isThere).map((name) => [name, values[optionName(name)]]))
  const body = bodyOf(chosen) && bodyGiven(chosen, wanted, values, pick)
  const params: Record<string, string> = {}
  // The argument first: it is what the command is about.
  const isArgument = (name: string) => (wanted.usage.includes(`<${name}>`) ? 0 : 1)
  for (const name of namesIn(chosen, 'path').sort((a, b) => isArgument(a) - isArgument(b)))
    params[name] = await caller.idOf(name, pathValue(values, name) ?? '')
  return { params, query: pick(namesIn(chosen, 'query')), ...(body && { body }) }
}

/** @throws UsageError when it needs some member and has none */
function bodyGiven(
  chosen: Described,
  wanted: Words,
  values: Values,
  pick: (names: readonly string[]) => Record<string, unknown>,
): object | undefined {
  const whole = (values['body'] ?? {}) as Record<string, object>
  const { within } = wanted
  const { properties = {} } = bodyOf(chosen) ?? {}
  const inner = pick(Object.keys((within === undefined ? undefined : properties[within]?.properties) ?? {}))
  const nested = within !== undefined && Object.keys(inner).length > 0 && { [within]: { ...whole[within], ...inner } }
  const body = { ...whole, ...wanted.fixed, ...pick(Object.keys(properties)), ...nested }
  if (Object.keys(body).length > 0) return body
  if (!chosen.operation.requestBody?.required) return undefined
  const members = Object.keys(membersOf(chosen, wanted)).map((name) => `--${optionName(name)}`)
  throw new UsageError(`give at least one of ${members.join(', ')}`)
}

async function perform(
  caller: OperationCaller,
  chosen: Described,
  given: Given,
  { columns, job, text, remark }: Words,
  { all, json: asJson }: Values,
): Promise<number> {
  const { operationId: id } = chosen.operation
  if ('application/x-ndjson' in successOf(chosen)) {
    for await (const line of caller.lines(id, given)) console.log(line)
    return 0
  }
  const isPaged = namesIn(chosen, 'query').includes('limit')
  const {
    body: first,
    next,
    isCut,
  } = all && isPaged ? await everyPage(caller, id, given) : await caller.page(id, given)
  const isAwaited = job !== undefined && (given.body as { wait?: boolean }).wait !== false
  const body = isAwaited ? await theEndOf(caller, job, first) : first
  if (asJson) console.log(JSON.stringify(body ?? null, null, 2))
  else if (Array.isArray(body)) printRows(body, columns)
  else if (text) console.log(text(body))
  else printReply(body)
  if (remark !== undefined) console.error(remark)
  if (next !== undefined) console.error(`${isCut ? CUT : 'there are more'}: --all, or ${flagsOf(next)}`)
  if (isCut && Array.isArray(body) && body.length === 0) return 1
  return isAwaited && (body as Job).status !== undefined && (body as Job).status !== 'done' ? 1 : 0
}

const CUT = 'the search was cut off after 2 seconds; narrow it, or go on'

async function everyPage(caller: OperationCaller, id: string, given: Given): Promise<Reply> {
  const body: unknown[] = []
  for await (const row of caller.rows(id, given)) body.push(row)
  return { body, next: undefined, isCut: false }
}

const LOOK_MS = 1_000

/** Of a job that goes on after its reply: asks for it until it has ended, and says how far it is. */
interface Job {
  id?: string
  status?: string
  revoked?: number
  total_matched?: number
  finished_at?: string | null
}

async function theEndOf(caller: OperationCaller, job: string, first: unknown): Promise<unknown> {
  let body = first as Job
  while (body.id !== undefined && body.finished_at === null) {
    process.stderr.write(`${body.status}: ${body.revoked} of ${body.total_matched}; it goes on when this is ended\n`)
    await sleep(LOOK_MS)
    body = (await caller.page(job, { params: { job_id: body.id } })).body as Job
  }
  return body
}

/** The options of the next page. */
function flagsOf(next: string): string {
  const query = new URLSearchParams(next.slice(next.indexOf('?')))
  return ['cursor', 'limit', 'offset']
    .flatMap((name) => (query.has(name) ? [`--${name} ${query.get(name)}`] : []))
    .join(' ')
}
