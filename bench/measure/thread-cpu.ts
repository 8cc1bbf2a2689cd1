/** CPU time of each thread of a service and its signer. */

import { readdirSync, readFileSync } from 'node:fs'
import { familyOf, roleOfCommand, unlessEnded } from './server-cpu.ts'

/** @returns microseconds since each thread began, by its id of the system (proc_pid_schedstat(5)) */
export function cpuOfThreads(pid: number): Map<number, number> {
  const programs = familyOf(pid).filter(({ commandLine }) => roleOfCommand(commandLine) !== 'postgres')
  const folders = programs.flatMap(({ pid: process }) => {
    const folder = `/proc/${process}/task`
    return (unlessEnded(() => readdirSync(folder)) ?? []).map(
      (id) => [Number(id), `${folder}/${id}/schedstat`] as const,
    )
  })
  return new Map(
    folders.flatMap(([id, file]) => {
      const [nanoseconds] = unlessEnded(() => readFileSync(file, 'latin1'))?.split(' ') ?? []
      return nanoseconds === undefined ? [] : [[id, Number(nanoseconds) / 1000] as const]
    }),
  )
}
