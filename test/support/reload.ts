/** SIGHUP on a test service, with its configuration file as it is or as a test has changed it. */

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parse, stringify } from 'yaml'
import type { LogLine, TestService } from './service.ts'
import { until } from './until.ts'

export type ConfigTree = Record<string, Record<string, unknown>>

/** A test that shares the service with others puts the file's text back. */
export function configOf({ folder }: Pick<TestService, 'folder'>) {
  const file = path.join(folder, 'config.yaml')
  return {
    text: () => readFileSync(file, 'utf8'),
    write: (text: string) => writeFileSync(file, text),
    edit(change: (config: ConfigTree) => void, from = readFileSync(file, 'utf8')): void {
      const config = parse(from) as ConfigTree
      change(config)
      writeFileSync(file, stringify(config))
    },
  }
}

/** @returns the line that a SIGHUP ends with */
export async function hangUp(service: TestService, message = 'configuration read again'): Promise<LogLine> {
  const seen = service.log.length
  service.process.kill('SIGHUP')
  return until(message, () => service.log.slice(seen).find((line) => line.message === message))
}
