/** A command for one operation of the Admin API, or for several with different path parameters. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Described, Schema } from '../../admin/described.ts'
import { isGiven, type Option, type Options, optional, UsageError } from '../../shared/command-line/options.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { CommandError, text } from '../values.ts'
import type { Given, OperationCaller, Reply } from './caller.ts'
import { printReply, printRows } from './output.ts'
import { json, optionFor } from './values.ts'
import { NAMED, shownName, usageOf, type Words } from './words.ts'

type Definitions = Readonly<Record<string, Schema>>
type Values = Readonly<Record<string, unknown>>

export interface OperationCommand {
  usage: string
  about: string
  options: Options
  /** @param positional values of the arguments in the usage. @returns the exit code */
  run(caller: OperationCaller, values: Values, positional: readonly string[]): Promise<number>
}

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
): OperationCommand {
  const { usage, fixed = {} } = wanted
  const positional = [...usage.matchAll(/<(\w+)>/g)].map(([, name]) => name as string)
  const options = optionsOf(wanted, described, definitions, [...positional, ...Object.keys(fixed)])
  // What a switch stands for is false without it.
  const isOff = ([name, value]: [string, unknown]) => value === false && options[name]?.kind === 'switch'
  return {
    usage: usageOf(wanted),
    about: wanted.about,
    options,
    async run(caller, values, given) {
      const named = positional.map((name, at) => [optionName(name), given[at]])
      const all: Values = Object.fromEntries([...Object.entries(values).filter((one) => !isOff(one)), ...named])
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
      const described = description === undefined ? schema : { ...schema, description }
      if (without.includes(name)) continue
      if (where === 'query') options[optionName(name)] = optionFor(described, definitions, isNeeded)
      else options[shownName(name)] = optional(`Of which ${shownName(name)}`, text)
    }
    for (const [name, { schema, isRequired }] of Object.entries(membersOf(one, wanted)))
      if (!without.includes(name)) options[optionName(name)] = optionFor(schema, definitions, isRequired)
    if (bodyOf(one)) options['body'] = optional('All members as JSON, or @ and the name of a file', json)
    if (namesIn(one, 'query').includes('limit')) options['all'] = isGiven('Every page')
  }
  return options
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
  const params: Record<string, string> = {}
  for (const name of namesIn(chosen, 'path')) params[name] = await idOf(caller, name, pathValue(values, name) ?? '')
  const schema = bodyOf(chosen)
  const whole = (values['body'] ?? {}) as Record<string, object>
  const { within } = wanted
  const { properties = {} } = schema ?? {}
  const inner = pick(Object.keys((within === undefined ? undefined : properties[within]?.properties) ?? {}))
  const nested = within !== undefined && Object.keys(inner).length > 0 && { [within]: { ...whole[within], ...inner } }
  const body = { ...whole, ...wanted.fixed, ...pick(Object.keys(properties)), ...nested }
  const isEmpty = Object.keys(body).length === 0 && !chosen.operation.requestBody?.required
  return { params, query: pick(namesIn(chosen, 'query')), ...(schema && !isEmpty && { body }) }
}

/** What has a name may be given by it. */
async function idOf(caller: OperationCaller, parameter: string, value: string): Promise<string> {
  const { list, member, shown } = NAMED[parameter] ?? { shown: '' }
  if (list === undefined || member === undefined || isUuid(value.toLowerCase())) return value
  for await (const row of caller.rows(list, {})) if (row[member] === value) return String(row['id'])
  throw new CommandError(`there is no ${shown} ${value}`)
}

async function perform(
  caller: OperationCaller,
  chosen: Described,
  given: Given,
  { columns, job }: Words,
  { all, json: asJson }: Values,
): Promise<number> {
  const { operationId: id } = chosen.operation
  if ('application/x-ndjson' in successOf(chosen)) {
    for await (const line of caller.lines(id, given)) console.log(line)
    return 0
  }
  const isPaged = namesIn(chosen, 'query').includes('limit')
  const { body: first, next } = all && isPaged ? await everyPage(caller, id, given) : await caller.page(id, given)
  const body = job === undefined ? first : await theEndOf(caller, job, first)
  if (asJson) console.log(JSON.stringify(body ?? null, null, 2))
  else if (Array.isArray(body)) printRows(body, columns)
  else printReply(body)
  if (next !== undefined) console.error(`there are more: --all, or ${flagsOf(next)}`)
  return 0
}

async function everyPage(caller: OperationCaller, id: string, given: Given): Promise<Reply> {
  const body: unknown[] = []
  for await (const row of caller.rows(id, given)) body.push(row)
  return { body, next: undefined }
}

const LOOK_MS = 1_000

/** Of a job that goes on after its reply: asks for it until it is done, and says how far it is. */
async function theEndOf(caller: OperationCaller, job: string, first: unknown): Promise<unknown> {
  let body = first as { id?: string; status?: string; revoked?: number; total_matched?: number }
  while (body.id !== undefined && body.status !== undefined && body.status !== 'done') {
    process.stderr.write(`${body.status}: ${body.revoked} of ${body.total_matched}; it goes on when this is ended\n`)
    await sleep(LOOK_MS)
    body = (await caller.page(job, { params: { job_id: body.id } })).body as typeof body
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
