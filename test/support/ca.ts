/**
 * The development CA of a test service: a copy of the run's, since making one, and loading what makes it, takes as much CPU
 * as a front thread's start. A file that is run alone makes one for itself.
 */

import { cpSync, mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'

/** Names the folder of the run's CA. */
export const CA_VARIABLE = 'CHANCERY_TEST_CA'

/** @returns its folder, which the caller deletes */
export async function makeRunCa(): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-test-ca-'))
  await ensureDevCa(folder, new Date())
  return folder
}

export async function testCa(folder: string): Promise<DevCaFiles> {
  const ofRun = process.env[CA_VARIABLE]
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Not over what a service left behind that is started again.
  if (ofRun) cpSync(ofRun, folder, { recursive: true, force: false })
  const { files } = await ensureDevCa(folder, new Date())
  return files
}
