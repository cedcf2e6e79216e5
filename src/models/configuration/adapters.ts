import { isBuiltin } from 'node:module'
import { nearest } from '../../text.ts'
import { misbehaviours } from './model-settings.ts'

/** The names of the built-in adapters in `models.json`. */
const ownAdapters = ['understudy', 'openai', 'llama.cpp', ...misbehaviours.map((name) => `understudy/${name}`)]

/**
 * The packages that an error message may recommend: the AI SDK's own providers. Any other name may be mistyped, and an attacker
 * may have published a package with the mistyped name.
 */
const knownProviders: readonly string[] = [
  'amazon-bedrock',
  'anthropic',
  'azure',
  'cerebras',
  'cohere',
  'deepseek',
  'fireworks',
  'google',
  'google-vertex',
  'groq',
  'mistral',
  'openai',
  'openai-compatible',
  'perplexity',
  'togetherai',
  'xai',
].map((name) => `@ai-sdk/${name}`)

/**
 * The fault of an adapter's name, as the end of a sentence. Undefined for a valid name.
 * @param written the name before `${NAME}` is filled in. The sentence quotes this text, because a filled-in value may be a secret
 */
export function adapterProblem(adapter: string, written = adapter): string | undefined {
  if (ownAdapters.includes(adapter) || isInstalled(adapter)) return undefined
  if (knownProviders.includes(adapter)) return `is ${JSON.stringify(written)}, which ${howToInstall(adapter)}`
  const inScope = `@ai-sdk/${adapter}`
  const meant = knownProviders.includes(inScope) ? inScope : nearest(written, [...ownAdapters, ...knownProviders])
  const wayOut =
    meant === undefined
      ? 'Give understudy, openai (for any server with an OpenAI-compatible API), llama.cpp, or an installed AI SDK provider such as @ai-sdk/anthropic'
      : `Did you mean ${meant}?`
  return `is ${JSON.stringify(written)}, which is neither an adapter nor an installed package. ${wayOut}`
}

/** Says that a package is not installed. For a known provider, also says how to install it. */
export function howToInstall(packageName: string): string {
  const isKnown = knownProviders.includes(packageName)
  return isKnown ? `is not installed. Run "npm install ${packageName}"` : 'is not installed'
}

const packageName = /^(@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*$/

/** Whether Node would load an installed package with this name. Node's own modules do not count. */
function isInstalled(name: string): boolean {
  if (isBuiltin(name) || !packageName.test(name)) return false
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}
