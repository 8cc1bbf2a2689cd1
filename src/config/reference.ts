/** The schema of the service's configuration as plain data. */

import type { Path } from '../shared/config-file/notice.ts'
import { type SchemaNode, schemaNodeOf } from '../shared/config-file/schema-node.ts'
import { ConfigSchema } from './schema.ts'

export const REFERENCE = schemaNodeOf(ConfigSchema)

export interface Leaf {
  path: Path
  node: SchemaNode
}

/** Lists and tables of names count as one key each. */
export const LEAVES: readonly Leaf[] = leavesOf(REFERENCE, [])

function leavesOf(node: SchemaNode, path: Path): Leaf[] {
  if (node.properties === undefined) return [{ path, node }]
  return Object.entries(node.properties)
    .filter(([key]) => key !== '_comment')
    .flatMap(([key, child]) => leavesOf(child, [...path, key]))
}
