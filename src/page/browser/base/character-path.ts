/**
 * The path of a character in the service. A browser would take the names `.` and `..` for folders, encoded too; the service
 * trims names, so that a blank behind them changes nothing else.
 */
export function characterPath(name: string): string {
  return `characters/${encodeURIComponent(/^\.\.?$/.test(name) ? `${name} ` : name)}`
}
