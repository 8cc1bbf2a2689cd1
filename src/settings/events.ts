/** Settings of the events thread. */

import { EVENTS_CONNECTIONS } from '../config/connections.ts'
import type { Config } from '../config/schema.ts'
import type { DatabaseSettings } from '../store/database.ts'
import { databaseSettings } from './server.ts'

export function eventsDatabaseSettings(config: Config): DatabaseSettings {
  return databaseSettings(config, EVENTS_CONNECTIONS)
}
