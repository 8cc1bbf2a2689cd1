/** Ends a command with sentences for the operator instead of a stack. */
export class CommandError extends Error {}

/** The command line itself is wrong: has its own exit code. */
export class UsageError extends CommandError {}
