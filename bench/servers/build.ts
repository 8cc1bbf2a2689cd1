/** The builds that the bench starts: the compiled working tree as it is, and a commit compiled in a work tree of its own. */

import { existsSync, readFileSync, realpathSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { UsageError } from '../../src/shared/command-line.ts'
import { outputOf } from './child.ts'

export interface Build {
  /** For people: what was measured. */
  name: string
  commit: string
  /** The first line of the commit's message. */
  subject: string
  /** Holds `dist` and `node_modules`. */
  root: string
}

/** The compiled bench is in compiled/bench/servers. */
export const OWN_ROOT = path.resolve(import.meta.dirname, '../../..')

/** @throws UsageError when there is no git work tree here. */
export async function ownBuild(signal: AbortSignal): Promise<Build> {
  const commit = await commitOf('HEAD', signal)
  const changes = await outputOf('git', ['status', '--porcelain', '--untracked-files=no'], OWN_ROOT, signal)
  const name = `this tree (${short(commit)}${changes === '' ? '' : ' with changes'})`
  return { name, commit, subject: await subjectOf(commit, signal), root: OWN_ROOT }
}

/** @throws UsageError when `ref` names no commit of this repository. */
export async function commitOf(ref: string, signal: AbortSignal): Promise<string> {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`]
  try {
    return await outputOf('git', args, OWN_ROOT, signal)
  } catch (cause) {
    if (signal.aborted) throw cause
    throw new UsageError(`--compare ${ref}: no such commit, branch or tag in the git repository ${OWN_ROOT}`)
  }
}

function subjectOf(commit: string, signal: AbortSignal): Promise<string> {
  return outputOf('git', ['log', '-1', '--format=%s', commit], OWN_ROOT, signal)
}

/**
 * Checks a commit out into `root` and compiles it. The dependencies of this tree serve when the commit needs no others,
 * otherwise others are installed beside it.
 * @throws Error with what the failing program printed; `removeCheckout` is the caller's in either case.
 */
export async function buildCommit(
  { ref, commit, root }: { ref: string; commit: string; root: string },
  onStep: (step: string) => void,
  signal: AbortSignal,
): Promise<Build> {
  const name = commit.startsWith(ref) ? short(commit) : `${ref} (${short(commit)})`
  onStep(`checking ${name} out`)
  await outputOf('git', ['worktree', 'add', '--detach', '--quiet', root, commit], OWN_ROOT, signal)
  const [wanted, own] = [lockedIn(root), lockedIn(OWN_ROOT)]
  if (Object.entries(wanted).every(([where, { version }]) => where === '' || own[where]?.version === version)) {
    symlinkSync(realpathSync(path.join(OWN_ROOT, 'node_modules')), path.join(root, 'node_modules'), 'dir')
  } else {
    onStep(`installing the dependencies of ${name}`)
    await outputOf('npm', ['ci', '--include=dev', '--no-audit', '--no-fund', '--no-progress'], root, signal)
  }
  onStep(`building ${name}`)
  // A commit before the bundles is compiled by itself.
  const bundler = 'src/dev/build.mjs'
  const builder = existsSync(path.join(root, bundler)) ? [bundler] : ['node_modules/typescript/bin/tsc', '-p', '.']
  await outputOf(process.execPath, builder, root, signal)
  return { name, commit, subject: await subjectOf(commit, signal), root }
}

/** Also when the check-out did not come to its end. */
export async function removeCheckout(root: string): Promise<void> {
  const never = new AbortController().signal
  const known = await outputOf('git', ['worktree', 'list', '--porcelain'], OWN_ROOT, never)
  if (!known.split('\n').includes(`worktree ${root}`)) return
  // Twice: a check-out that was interrupted is locked.
  await outputOf('git', ['worktree', 'remove', '--force', '--force', root], OWN_ROOT, never)
}

function short(commit: string): string {
  return commit.slice(0, 7)
}

function lockedIn(root: string): Record<string, { version: string }> {
  return JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')).packages
}
