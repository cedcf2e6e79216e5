import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Config, ConfigError, type Upstream } from '../../config.ts'
import { codeOf } from '../../errors.ts'
import { type ModelSettings, type ModelsConfiguration, misbehaviours, namesCharacter } from './model-settings.ts'

/**
 * The models that the operator configured: those of the `models.json` in `CONFIG_DIR`, else of the one in `DATA_DIR`, or
 * the defaults when there is no such file.
 * @throws ConfigError that lists every fault of the file, or says why it cannot be read
 */
export async function loadModels(config: Config): Promise<ModelsConfiguration> {
  const { configDirectory, dataDirectory, environment, upstream, defaultModel } = config
  // Without this, a folder that is misspelt or not mounted would start a service with other models than were meant.
  if (configDirectory !== dataDirectory && !isFolder(configDirectory)) {
    throw new ConfigError([
      `CONFIG_DIR names ${configDirectory}, where there is no folder. Make the folder, or set CONFIG_DIR to another.`,
    ])
  }
  const text = readIfThere(join(configDirectory, 'models.json')) ?? readIfThere(join(dataDirectory, 'models.json'))
  if (text === undefined) return defaultModels(upstream, defaultModel)
  if (defaultModel !== undefined) {
    throw new ConfigError([
      'DEFAULT_MODEL stands beside a models.json. Leave it out, and name the model in "default" there.',
    ])
  }
  const { readModels } = await import('./models-file.ts')
  return readModels(text, environment)
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** A file's text; undefined when there is no such file. @throws ConfigError when there is one that cannot be read */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new ConfigError([
      `${path} cannot be read: the system says ${code}. It must be a file that this user may read.`,
    ])
  }
}

/**
 * The models when there is no `models.json`: the understudy with all its manners, and the upstream of the quick way.
 * @param standard the model that `default` stands for
 * @throws ConfigError for one that is no model
 */
export function defaultModels(upstream: Upstream | undefined, standard = 'understudy'): ModelsConfiguration {
  const understudies = ['understudy', ...misbehaviours.map((name) => `understudy/${name}` as const)] as const
  const models = new Map<string, ModelSettings>(understudies.map((name) => [name, { adapter: name }]))
  if (upstream) {
    const { baseUrl, apiKey } = upstream
    models.set('*', { adapter: 'openai', baseUrl, ...(apiKey === undefined ? {} : { apiKey }) })
  }
  if (namesCharacter(standard)) {
    const advice = 'Give the id of a model; a character is played on it as character/NAME.'
    throw new ConfigError([
      `DEFAULT_MODEL is ${JSON.stringify(standard)}, which is a character, and no model. ${advice}`,
    ])
  }
  if (standard === '*' || !(upstream || models.has(standard))) {
    const advice = upstream
      ? 'Give the id of one model.'
      : 'Without OPENAI_BASE_URL or OPENAI_API_KEY there are the understudies alone.'
    throw new ConfigError([`DEFAULT_MODEL is ${JSON.stringify(standard)}, which is no model. ${advice}`])
  }
  return { default: standard, models }
}
