/** Starts the servers of a plan, and takes down what it has started, whatever happens. */

import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { listenersOf, type Options, type Plan } from '../options.ts'
import type { Surroundings } from '../run.ts'
import { buildCommit, commitOf, ownBuild, removeCheckout } from './build.ts'
import { type Contestant, startBuild } from './chancery.ts'
import { startBeside } from './others.ts'

/** Starts one server with a folder of its own, which it makes. @throws Error */
export type Starter = (folder: string, plan: Plan) => Promise<Contestant>

/**
 * Builds what is to be built, and hands over how each server is started, in their order.
 * @param use gets also a folder, which is removed in the end
 * @throws UsageError for a ref that is none. @throws Error when something could not be built
 */
export async function withStarters<T>(
  { start, compare, beside }: Plan,
  { progress, interrupt }: Surroundings,
  use: (starters: Starter[], folder: string) => Promise<T>,
): Promise<T> {
  const commit = compare === undefined ? undefined : await commitOf(compare, interrupt)
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'chancery-bench-')))
  // PostgreSQL may run as another user; what is secret below has modes of its own.
  chmodSync(folder, 0o755)
  const root = path.join(folder, 'checkout')
  try {
    const builds = start ? [await ownBuild(interrupt)] : []
    if (compare !== undefined && commit !== undefined)
      builds.push(await buildCommit({ ref: compare, commit, root }, progress.begin, interrupt))
    const starters: Starter[] = []
    for (const build of builds) starters.push((folder, plan) => startBuild(build, folder, plan, interrupt))
    for (const other of beside) starters.push((folder, { options }) => startBeside(other, folder, options, interrupt))
    return await use(starters, folder)
  } finally {
    try {
      if (compare !== undefined) await removeCheckout(root)
    } finally {
      rmSync(folder, { recursive: true, force: true })
      progress.end()
    }
  }
}

/** Starts what is to be started, all at once, and hands all servers over. @throws what `withStarters` throws */
export async function withServers<T>(
  plan: Plan,
  around: Surroundings,
  use: (contestants: Contestant[]) => Promise<T>,
): Promise<T> {
  const { options, start, against } = plan
  const contestants: Contestant[] = []
  return await withStarters(plan, around, async (starters, folder) => {
    try {
      if (starters.length > 0) around.progress.begin('starting servers')
      const starting = starters.map((start, index) => start(path.join(folder, String(index)), plan))
      const started = await Promise.allSettled(starting)
      if (!start) contestants.push(runningServer(options.directoryUrl, options))
      for (const one of started) if (one.status === 'fulfilled') contestants.push(one.value)
      for (const one of started) if (one.status === 'rejected') throw one.reason
      for (const url of against) {
        const known = { directoryUrl: url, rootCertificate: undefined, pids: listenersOf(url) }
        contestants.push(runningServer(new URL(url).host, { ...options, ...known }))
      }
      return await use(contestants)
    } finally {
      if (starters.length > 0) around.progress.begin('taking servers down')
      await Promise.all(contestants.map((contestant) => contestant.stop()))
    }
  })
}

function runningServer(name: string, options: Options): Contestant {
  return { subject: { name, commit: undefined, note: '' }, options, stop: async () => undefined }
}
