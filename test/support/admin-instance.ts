/**
 * Another instance of the Admin API on the database of a service: its admin thread alone, in this process, with a port of
 * its own. It costs a tenth of a service, and what administrators see of one another goes through the database alone.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import pino from 'pino'
import { stringify } from 'yaml'
import { loadConfig } from '../../src/config/load.ts'
import { type AdminThread, startAdmin } from '../../src/main/admin/start-admin.ts'
import { Parts } from '../../src/main/parts.ts'
import type { StartContext } from '../../src/main/start-context.ts'
import { allocateSharedFlags, openSharedFlags } from '../../src/services/shared-state.ts'
import { freePort } from './free-port.ts'
import type { TestService } from './service.ts'
import { configOf } from './shared-service.ts'

export interface AdminInstance {
  baseUrl: string
  port: number
  /** The folder of its `config.yaml`, for commands. */
  folder: string
  thread: AdminThread
  close(): Promise<void>
}

type Sections = Record<string, Record<string, unknown>>

/** @param changes laid over the sections of the service's configuration */
export async function adminInstance(service: TestService, changes: Sections = {}): Promise<AdminInstance> {
  const folder = mkdtempSync(path.join(service.folder, 'instance-'))
  const file = path.join(folder, 'config.yaml')
  const listen = { port: await freePort(), ...(changes['admin_api']?.['listen'] as object) }
  const { port } = listen
  const sections = configOf(service)
  const over: Sections = { logging: { level: 'CRITICAL' }, ...changes }
  over['admin_api'] = { ...over['admin_api'], listen }
  for (const [name, section] of Object.entries(over)) sections[name] = { ...sections[name], ...section }
  writeFileSync(file, stringify(sections))
  const loaded = await loadConfig(file, process.env)
  assert.ok(loaded.ok)
  const { config } = loaded
  const parts = new Parts()
  const now = { config, stopping: false }
  const log = pino({ level: 'silent' })
  const reread = () => loadConfig(file, process.env)
  const context = { config, now, version: '0', log, parts, reread, onBroken: () => undefined }
  const ca = { issuers: () => [] } as never
  const flagsMemory = allocateSharedFlags(1)
  const caPart = { ca, flags: openSharedFlags(flagsMemory), flagsMemory }
  const thread = await startAdmin(context as unknown as StartContext, caPart, undefined as never, {
    note: async () => undefined,
  })
  assert.ok(thread)
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    port,
    folder,
    thread,
    close: () => parts.stop(() => undefined),
  }
}
