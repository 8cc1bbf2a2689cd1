/**
 * Commands on the Admin API: with `-c FILE` they work on the database, with `--server URL` on the service. A command for one
 * operation is made from a row of the operation table.
 */

import type { Input, OperationId, Output } from '../../admin/client.ts'
import { SUMMARIES } from '../../admin/summaries.ts'
import type { Config } from '../../config/schema.ts'
import {
  type Command,
  isGiven,
  type Option,
  type Options,
  optional,
  type Raw,
  UsageError,
  type Values,
} from '../../shared/command-line.ts'
import { printReply, printRows } from '../printing.ts'
import { json, TARGET } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { byOptionName, optionName } from './filter-options.ts'

export interface AdminCommand<O extends Options = Options>
  extends Pick<Command<O>, 'usage' | 'about' | 'options' | 'further'> {
  /** The words after the common options; without examples the help makes one of the usage. */
  examples?: readonly string[]
  /** Takes `--emergency`: its operation may need another person (`approval` of the endpoint). */
  approval?: true | undefined
  /** Works on the schema of another release, too. */
  anySchema?: true
  /**
   * @param words values of the arguments in the usage, and further ones
   * @param config undefined with `--server`
   * @returns the exit code
   */
  run(
    caller: AdminCaller,
    values: Values<O> & { json: boolean },
    words: readonly string[],
    config?: Config,
  ): Promise<number>
}

/** Lets the options of a command give its values their types. */
export function adminCommand<O extends Options>(one: AdminCommand<O>): AdminCommand {
  return one as unknown as AdminCommand
}

/** @param begin of the command line, such as `-c config.yaml` */
export function examplesOf({ examples, usage }: AdminCommand, begin: string): readonly string[] {
  return (examples ?? [usage.replaceAll(/<[^>]+>/g, '…')]).map((example) => `${begin} ${example}`)
}

/** An option for each member. */
type Fields<T> = { readonly [K in keyof T & string]?: Option<T[K] | undefined> }
type Given<T> = { readonly [K in keyof T]?: T[K] | undefined }
type QueryOf<I extends OperationId> = NonNullable<Input<I>['query']>
type BodyOf<I extends OperationId> = NonNullable<Input<I>['body']>
type Column<R> = R extends readonly (infer T)[] ? keyof T & string : never

export interface OperationRow<I extends OperationId = OperationId> {
  /** The words of the command, then path parameters and members of the body as `<arguments>`. */
  usage: string
  operation: I
  /** The operation with `--eab`; the one above is then that with `--account`. */
  ofEab?: OperationId
  /** The operation with neither. */
  ofAll?: OperationId
  /** Where the command is more or less than its operation; else it takes the operation's summary. */
  about?: AdminCommand['about']
  query?: Fields<QueryOf<I>>
  body?: Fields<BodyOf<I>>
  /** Members of the body that the words of the command stand for. */
  fixed?: Given<BodyOf<I>>
  /** Members of the body without their option. @param config undefined with `--server` */
  defaults?(config: Config | undefined): Given<BodyOf<I>>
  /** The table that a list is shown as. */
  columns?: readonly Column<Output<I>>[]
  /** The reply for a reader, where that is not one line for each member. */
  text?(reply: Output<I>): string
  /** The reply is a stream of lines. */
  isStream?: true
  /** Printed beside a reply that is shown only once. */
  remark?: string
  /** The option that an extra word may be meant for. */
  further?: `--${string}`
  /** Works on the schema of another release, too. */
  anySchema?: true
  approval?: true | undefined
  /** Is about the user of a session, and so works only with `--server`. */
  needsSession?: true
}

/** Checks a row against the description of its operation. */
export function row<const I extends OperationId>(one: OperationRow<I>): OperationRow {
  return one as unknown as OperationRow
}

/** Shorter names of path parameters in the help. */
const SHOWN: Readonly<Record<string, string>> = { user_id: 'username', cred_id: 'eab' }

const shownUsage = (usage: string): string =>
  usage.replaceAll(/<(\w+)>/g, (_, name: string) => {
    return `<${SHOWN[name] ?? name.replace(/_id$/, '').replaceAll('_', '-')}>`
  })

export const BODY = { body: optional('All members as JSON, or @ and the name of a file', json) }
const EVERY_PAGE = { all: isGiven('Every page') }

export function operationCommand(one: OperationRow): AdminCommand {
  const {
    usage,
    operation,
    about = SUMMARIES[operation],
    query = {},
    body,
    fixed,
    defaults,
    ofEab,
    further,
    anySchema,
    approval,
  } = one
  const positional = [...usage.matchAll(/<(\w+)>/g)].map(([, name = '']) => name)
  const hasBody = body !== undefined || fixed !== undefined
  return {
    usage: shownUsage(usage),
    about,
    options: {
      ...(ofEab && TARGET),
      ...byOptionName(query),
      ...(hasBody && byOptionName(body ?? {})),
      ...(hasBody && BODY),
      ...('limit' in query && EVERY_PAGE),
    },
    ...(further && { further }),
    ...(anySchema && { anySchema }),
    approval,
    async run(caller, values, words, config) {
      const operation = operationOf(one, values)
      const inPath = caller.parametersOf(operation)
      const typed: Raw = Object.fromEntries(positional.map((name, at) => [name, words[at]]))
      const targets: Raw = { account_id: values['account'], cred_id: values['eab'] }
      const params: Record<string, string> = {}
      // The arguments first: the command is about them.
      for (const name of [...positional, ...inPath].filter((name) => inPath.includes(name)))
        params[name] ??= await caller.idOf(name, String(typed[name] ?? targets[name]))
      const given = (members: readonly string[]) =>
        Object.fromEntries(
          members
            .map((name) => [name, typed[name] ?? values[optionName(name)]])
            .filter(([, value]) => value !== undefined),
        )
      const members = [...positional.filter((name) => !inPath.includes(name)), ...Object.keys(body ?? {})]
      const whole = values['body'] as object | undefined
      const input = {
        params,
        query: given(Object.keys(query)),
        ...(hasBody && { body: { ...defaults?.(config), ...whole, ...fixed, ...given(members) } }),
      }
      return perform(caller, operation, input, one, values)
    },
  }
}

/** @throws UsageError unless exactly one target is given, where the row needs one */
function operationOf({ operation, ofEab, ofAll }: OperationRow, { account, eab }: Raw): OperationId {
  if (ofEab === undefined) return operation
  if (account !== undefined && eab !== undefined) throw new UsageError('name one of --account, --eab, not both')
  if (account !== undefined) return operation
  if (eab !== undefined) return ofEab
  if (ofAll !== undefined) return ofAll
  throw new UsageError('name one of --account, --eab')
}

/** @returns the exit code: 1 when the search was cut off before it found a row */
async function perform(
  caller: AdminCaller,
  operation: OperationId,
  input: object,
  { columns, text, isStream, remark }: Pick<OperationRow, 'columns' | 'text' | 'isStream' | 'remark'>,
  { all, json }: Raw,
): Promise<number> {
  // The row has the types of its own operation; here any will do.
  const [id, given] = [operation as 'listUsers', input as never]
  if (isStream) {
    for await (const line of caller.lines(id, given)) console.log(line)
    return 0
  }
  const { body, next, isCut } = all ? await everyPage(caller, id, given) : await caller.page(id, given)
  if (json) console.log(JSON.stringify(body ?? null, null, 2))
  else if (Array.isArray(body) && !(isCut && body.length === 0)) printRows(body, columns)
  else if (Array.isArray(body)) console.error('nothing was found so far')
  else if (text) console.log(text(body as never))
  else printReply(body)
  if (remark !== undefined) console.error(remark)
  if (next !== undefined) {
    const why = isCut ? 'the search was cut off after 2 seconds; narrow it, or continue' : 'there are more'
    console.error(`${why}: --all, or ${flagsOf(next)}`)
  }
  return isCut && Array.isArray(body) && body.length === 0 ? 1 : 0
}

async function everyPage(caller: AdminCaller, id: 'listUsers', input: Input<'listUsers'>) {
  const body = []
  for await (const row of caller.rows(id, input)) body.push(row)
  return { body, next: undefined, isCut: false }
}

/** The options of the next page. */
function flagsOf(next: string): string {
  const query = new URLSearchParams(next.slice(next.indexOf('?')))
  return ['cursor', 'limit', 'offset']
    .flatMap((name) => (query.has(name) ? [`--${name} ${query.get(name)}`] : []))
    .join(' ')
}
