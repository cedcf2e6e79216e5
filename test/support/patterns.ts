import { globSync } from 'node:fs'
import { join } from 'node:path'
import type { Node } from 'typescript/unstable/ast'
import {
  isFunctionDeclaration,
  isIdentifier,
  isMethodDeclaration,
  isNewExpression,
  isPrivateIdentifier,
  isPropertyAssignment,
  isRegularExpressionLiteral,
  isVariableDeclaration,
} from 'typescript/unstable/ast/is'
import { API } from 'typescript/unstable/sync'
import { vi } from 'vitest'
import { projectFolder } from './process.ts'

/** A regular expression of `src/`. */
export interface Pattern {
  /** The file and the outermost named declaration, for example `src/time.ts readTime`. */
  readonly place: string
  readonly file: string
  /** Undefined if `new RegExp` makes the pattern from parts. */
  readonly literal: RegExp | undefined
}

/** Every literal and every `new RegExp` of the service's files, as the compiler of TypeScript reads them. */
export function patternsOfService(): readonly Pattern[] {
  const api = new API({ cwd: projectFolder })
  try {
    const [project] = api.updateSnapshot({ openProjects: [join(projectFolder, 'tsconfig.json')] }).getProjects()
    // The code of the page runs in the browser of the caller.
    return globSync('src/**/*.ts', { cwd: projectFolder, exclude: ['src/page/browser/**', 'src/main.ts'] }).flatMap(
      (path) => {
        const file = path.replaceAll('\\', '/')
        const source = project?.program.getSourceFile(join(projectFolder, path))
        if (!source) throw new Error(`tsconfig.json does not contain ${file}`)
        return [...patternsIn(source, file, file)]
      },
    )
  } finally {
    api.close()
  }
}

function* patternsIn(node: Node, file: string, place: string): Generator<Pattern> {
  if (isRegularExpressionLiteral(node)) {
    const end = node.text.lastIndexOf('/')
    yield { place, file, literal: new RegExp(node.text.slice(1, end), node.text.slice(end + 1)) }
  }
  if (isNewExpression(node) && isIdentifier(node.expression) && node.expression.text === 'RegExp') {
    yield { place, file, literal: undefined }
  }
  const name = nameOf(node)
  const children: Node[] = []
  node.forEachChild((child) => void children.push(child))
  for (const child of children) yield* patternsIn(child, file, place === file && name ? `${file} ${name}` : place)
}

function nameOf(node: Node): string | undefined {
  const isNamed =
    isVariableDeclaration(node) ||
    isFunctionDeclaration(node) ||
    isMethodDeclaration(node) ||
    isPropertyAssignment(node)
  return isNamed && node.name && (isIdentifier(node.name) || isPrivateIdentifier(node.name))
    ? node.name.text
    : undefined
}

/** The patterns that a file of the service makes with `new RegExp` while it is loaded. */
export async function patternsBuiltBy(file: string): Promise<readonly RegExp[]> {
  const built: RegExp[] = []
  const recorder = new Proxy(RegExp, {
    construct(target, [source, flags]: [string, string?]) {
      const pattern = new target(source, flags)
      // The first line is the message of the error, the second is this function, and the third is the caller.
      if (new Error().stack?.split('\n')[2]?.replaceAll('\\', '/').includes(file)) built.push(pattern)
      return pattern
    },
  })
  vi.resetModules()
  vi.stubGlobal('RegExp', recorder)
  try {
    await import(join(projectFolder, file))
  } finally {
    vi.unstubAllGlobals()
  }
  return built
}
