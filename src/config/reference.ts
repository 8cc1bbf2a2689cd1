/** The schema of the service's configuration as plain data. */

import { schemaNodeOf } from '../shared/config-file/schema-node.ts'
import { ConfigSchema } from './schema.ts'

export const REFERENCE = schemaNodeOf(ConfigSchema)
