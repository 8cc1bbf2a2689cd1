/** CPU time of each thread of a service and its signer. */

import { readdirSync, readFileSync } from 'node:fs'
import { familyOf, roleOfCommand } from './server-cpu.ts'

/** @returns microseconds since each thread began, by its id of the system (proc_pid_schedstat(5)) */
export function cpuOfThreads(pid: number): Map<number, number> {
  const programs = familyOf(pid).filter(({ commandLine }) => roleOfCommand(commandLine) !== 'postgres')
  const threads = programs.flatMap((one) => readdirSync(`/proc/${one.pid}/task`).map((id) => [one.pid, id] as const))
  return new Map(
    threads.map(([process, id]) => {
      const [nanoseconds] = readFileSync(`/proc/${process}/task/${id}/schedstat`, 'latin1').split(' ')
      return [Number(id), Number(nanoseconds) / 1000]
    }),
  )
}
