/** `npm run bench -- profile`: where the CPU of one operation goes. */

import { type Command, EXIT_CODES, type Session, writeReports } from '../command.ts'
import { PROFILE_FLAGS, parseProfileOptions } from '../options/profile.ts'
import type { Raw } from '../options/reader.ts'
import { isGood } from '../report/result.ts'
import { profileServer } from './profile.ts'
import { renderProfile } from './text.ts'

export const command: Command = {
  description: [
    'Where the CPU of one operation goes: profiles of all threads, statements of PostgreSQL, event loops, allocations.',
    'Starts a service of its own in development mode, loads it three times, and takes it down.',
    EXIT_CODES,
  ],
  examples: [],
  flags: PROFILE_FLAGS,
  run: profile,
}

async function profile(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { settings, options } = parseProfileOptions(raw)
  const { build, profiles } = await profileServer(settings, options, progress, interrupt)
  process.stdout.write(profiles.map(renderProfile).join('\n'))
  const subject = { name: build.name, commit: build.commit, note: '', isOurs: true }
  const isWritten = writeReports(options, document([subject], { profiles }))
  return isWritten && profiles.every(({ result }) => isGood(result))
}
