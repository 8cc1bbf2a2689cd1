/** A command for one operation of the Admin API, or for several with different path parameters. */

import type { Described, Schema } from '../../admin/described.ts'
import {
  isGiven,
  type Option,
  type Options,
  optional,
  type Raw,
  UsageError,
} from '../../shared/command-line/options.ts'
import { type Command, command } from '../../shared/command-line/program.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { CommandError, text } from '../values.ts'
import { Connection, type Given, type Reply } from './connection.ts'
import { printReply, printRows } from './output.ts'
import { json, optionFor } from './values.ts'
import type { Words } from './words.ts'

type Definitions = Readonly<Record<string, Schema>>
type Values = Readonly<Record<string, unknown>>

/** A path parameter that a name stands for: where the names are listed, and as what. */
interface Named {
  shown: string
  list?: string
  member?: string
}

const NAMED: Readonly<Record<string, Named>> = {
  user_id: { shown: 'username', list: 'listUsers', member: 'username' },
  token_id: { shown: 'token', list: 'listTokens', member: 'name' },
  cred_id: { shown: 'eab', list: 'listEabCredentials', member: 'kid' },
  identifier_id: { shown: 'identifier', list: 'listAllowedIdentifiers', member: 'identifier_value' },
  profile_id: { shown: 'profile', list: 'listCsrProfiles', member: 'name' },
}

const shownName = (parameter: string) => NAMED[parameter]?.shown ?? parameter.replace(/_id$/, '').replaceAll('_', '-')
const optionName = (member: string) => member.replaceAll('_', '-')
const bodyOf = ({ operation }: Described): Schema | undefined =>
  operation.requestBody?.content['application/json']?.schema
const namesIn = ({ operation }: Described, where: 'path' | 'query') =>
  operation.parameters.filter((parameter) => parameter.in === where).map(({ name }) => name)
const successOf = ({ operation }: Described) => Object.values(operation.responses)[0]?.content ?? {}

export function operationCommand(wanted: Words, described: readonly Described[], definitions: Definitions): Command {
  const { usage, fixed = {} } = wanted
  const positional = [...usage.matchAll(/<(\w+)>/g)].map(([, name]) => name as string)
  const options = optionsOf(described, definitions, [...positional, ...Object.keys(fixed)])
  return command({
    usage: usage.replaceAll(/<(\w+)>/g, (_, name) => `<${shownName(name)}>`),
    about: wanted.about ?? described.map(({ operation }) => operation.summary),
    options,
    examples: [`--server https://ca.example ${usage.replaceAll(/<(\w+)>/g, '…')}`],
    async run(values, given, raw) {
      const all: Values = {
        ...values,
        ...Object.fromEntries(positional.map((name, at) => [optionName(name), given[at]])),
      }
      const chosen = choose(described, all)
      const connection = new Connection(raw)
      return perform(connection, chosen, await givenTo(connection, chosen, all, fixed, raw), wanted, all)
    },
  })
}

function optionsOf(described: readonly Described[], definitions: Definitions, without: readonly string[]): Options {
  const options: Record<string, Option<unknown>> = {}
  for (const one of described) {
    const { properties = {}, required = [] } = bodyOf(one) ?? {}
    for (const { name, in: where, schema, description, required: isNeeded } of one.operation.parameters) {
      const described = description === undefined ? schema : { ...schema, description }
      if (without.includes(name)) continue
      if (where === 'query') options[optionName(name)] = optionFor(described, definitions, isNeeded)
      else options[shownName(name)] = optional(`Of which ${shownName(name)}`, text)
    }
    for (const [name, schema] of Object.entries(properties))
      if (!without.includes(name)) options[optionName(name)] = optionFor(schema, definitions, required.includes(name))
    if (bodyOf(one)) options['body'] = optional('All members as JSON, or @ and the name of a file', json)
    if (namesIn(one, 'query').includes('limit')) options['all'] = isGiven('All pages')
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

async function givenTo(
  connection: Connection,
  chosen: Described,
  values: Values,
  fixed: Values,
  raw: Raw,
): Promise<Given> {
  const isThere = (name: string) => {
    const value = values[optionName(name)]
    return value !== undefined && !(Array.isArray(value) && value.length === 0)
  }
  const pick = (names: readonly string[]) =>
    Object.fromEntries(names.filter(isThere).map((name) => [name, values[optionName(name)]]))
  const params: Record<string, string> = {}
  for (const name of namesIn(chosen, 'path')) params[name] = await idOf(connection, name, pathValue(values, name) ?? '')
  const schema = bodyOf(chosen)
  const whole = raw['body'] === undefined ? {} : (values['body'] as object)
  const body = { ...whole, ...fixed, ...pick(Object.keys(schema?.properties ?? {})) }
  const isEmpty = Object.keys(body).length === 0 && !chosen.operation.requestBody?.required
  return { params, query: pick(namesIn(chosen, 'query')), ...(schema && !isEmpty && { body }) }
}

/** What has a name may be given by it. */
async function idOf(connection: Connection, parameter: string, value: string): Promise<string> {
  const { list, member, shown } = NAMED[parameter] ?? { shown: '' }
  if (list === undefined || member === undefined || isUuid(value.toLowerCase())) return value
  for await (const row of connection.rows(list, {})) if (row[member] === value) return String(row['id'])
  throw new CommandError(`there is no ${shown} ${value}`)
}

async function perform(
  connection: Connection,
  chosen: Described,
  given: Given,
  { columns }: Words,
  { all }: Values,
): Promise<number> {
  const { operationId: id } = chosen.operation
  if ('application/x-ndjson' in successOf(chosen)) {
    for await (const line of connection.lines(id, given)) console.log(line)
    return 0
  }
  const { body, next } = all ? await everyPage(connection, id, given) : await connection.page(id, given)
  if (connection.options.json) console.log(JSON.stringify(body ?? null, null, 2))
  else if (Array.isArray(body)) printRows(body, columns)
  else printReply(body)
  if (next !== undefined) console.error(`there are more: --all, or ${flagsOf(next)}`)
  return 0
}

async function everyPage(connection: Connection, id: string, given: Given): Promise<Reply> {
  const body: unknown[] = []
  for await (const row of connection.rows(id, given)) body.push(row)
  return { body, next: undefined }
}

/** The options of the next page. */
function flagsOf(next: string): string {
  const query = new URLSearchParams(next.slice(next.indexOf('?')))
  return ['cursor', 'limit', 'offset']
    .flatMap((name) => (query.has(name) ? [`--${name} ${query.get(name)}`] : []))
    .join(' ')
}
