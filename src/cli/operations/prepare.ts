/** Commands for operations, from the descriptions of the Admin API. */

import { type Described, describedApi } from '../../admin/described.ts'
import { operationCommand } from './operation-command.ts'
import type { SharedCommand } from './shared-command.ts'
import type { Words } from './words.ts'

export function preparedCommands(wanted: readonly Words[]): readonly SharedCommand[] {
  const { document, operations } = describedApi()
  const byId = new Map(operations.map((one) => [one.operation.operationId, one]))
  return wanted.map((words) => {
    const described = words.operations.map((id) => byId.get(id)).filter((one): one is Described => one !== undefined)
    return operationCommand(words, described, document.components.schemas)
  })
}

/** `api …`: a command for every operation by its id. */
export function everyOperation(without: readonly string[] = []): readonly Words[] {
  return describedApi().operations.flatMap(({ path, operation: { operationId, summary } }): Words[] => {
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ` <${name}>`)
    const words: Words = {
      usage: `api ${operationId}${parameters.join('')}`,
      operations: [operationId],
      about: summary,
    }
    return without.includes(operationId) ? [] : [words]
  })
}
