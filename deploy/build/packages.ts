/** Which packages of package-lock.json a production tree needs. Pure. */

interface LockEntry {
  version: string
  resolved?: string
  integrity?: string
  license?: string
  optional?: true
  os?: string[]
  cpu?: string[]
  libc?: string[]
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

export interface Lock {
  packages: Record<string, LockEntry>
}

/** @returns folders such as `node_modules/slonik/node_modules/p-limit`, sorted; of what the service itself depends on */
export function productionFolders(lock: Lock): string[] {
  const { dependencies = {}, optionalDependencies = {} } = lock.packages['']!
  return foldersOf(lock, [...Object.keys(dependencies), ...Object.keys(optionalDependencies)])
}

/**
 * @param names packages that are imported by name
 * @returns their folders and the folders of all that they depend on, sorted
 */
export function foldersOf(lock: Lock, names: Iterable<string>): string[] {
  const found = new Set<string>()
  const visit = (name: string, from: string) => {
    const folder = nearestFolder(lock, name, from)
    if (folder === undefined || found.has(folder)) return
    found.add(folder)
    const { dependencies = {}, optionalDependencies = {} } = lock.packages[folder]!
    for (const needed of [...Object.keys(dependencies), ...Object.keys(optionalDependencies)]) visit(needed, folder)
  }
  for (const name of names) visit(name, '')
  return [...found].sort()
}

/** Node.js looks in the package's own node_modules first, then in the one of each folder above it. */
function nearestFolder({ packages }: Lock, name: string, from: string): string | undefined {
  const folder = `${from && `${from}/`}node_modules/${name}`
  if (packages[folder]) return folder
  if (from === '') return undefined
  const above = from.slice(0, Math.max(0, from.lastIndexOf('node_modules/') - 1))
  return nearestFolder({ packages }, name, above)
}

export const packageName = (folder: string): string => folder.replace(/^.*node_modules\//, '')
