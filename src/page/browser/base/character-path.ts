/**
 * The path of a character in the service. A browser would take the names `.` and `..` for folders, even if they are encoded.
 * They get a space at the end, since the service trims names.
 */
export function characterPath(name: string): string {
  return `characters/${encodeURIComponent(/^\.\.?$/.test(name) ? `${name} ` : name)}`
}
