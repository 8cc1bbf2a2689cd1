/** `chancery api …`: every operation of the Admin API by its id, with its query as options and its body as JSON. */

import type { OperationId } from '../../admin/client.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { optional } from '../../shared/command-line.ts'
import { text } from '../values.ts'
import { type AdminCommand, operationCommand } from './admin-command.ts'

/** @param without operations that are left out */
export function everyOperation(without: readonly string[] = []): readonly AdminCommand[] {
  return ENDPOINTS.filter(({ id }) => !without.includes(id)).map(({ id, path, query, body, reply, approval }) => {
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ` <${name}>`)
    return operationCommand({
      usage: `api ${id}${parameters.join('')}`,
      operation: id as OperationId,
      approval: approval && true,
      query: Object.fromEntries(membersOf(query).map((name) => [name, optional(`Query parameter ${name}`, text)])),
      ...(body && { body: {} }),
      ...(reply.contentType === 'application/x-ndjson' && { isStream: true }),
    })
  })
}

const membersOf = (schema: object | undefined): string[] =>
  schema !== undefined && 'shape' in schema ? Object.keys(schema.shape as object) : []
