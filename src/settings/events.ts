/** Settings of the events thread. */

import type { Config } from '../config/schema.ts'
import type { DatabaseSettings } from '../store/database.ts'
import { databaseSettings, EVENTS_CONNECTIONS } from './server.ts'

export function eventsDatabaseSettings(config: Config): DatabaseSettings {
  return databaseSettings(config, EVENTS_CONNECTIONS)
}
