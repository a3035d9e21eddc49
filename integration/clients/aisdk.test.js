import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { generateText, isStepCount, streamText, tool } from 'ai';
import { scenes } from '../world/scenes.js';
import { World } from '../world/world.js';
import { connect } from './aisdk.js';

let world;
before(async () => { world = await World.open(); });
after(() => world.close());

const loop = { stopWhen: isStepCount(5) };

for (const api of ['chat', 'responses', 'messages']) {
	scenes(`AI SDK, ${api}`, () => world, async (c, prompt) => {
		const { client, tools, [api]: models } = await connect(c.connection);
		const { text } = await generateText({ ...loop, model: api === 'responses' ? models.responses(c.model) : models(c.model), tools, prompt });
		await client.close();
		return text;
	});
	scenes(`AI SDK, ${api} streamed`, () => world, async (c, prompt) => {
		const { client, tools, [api]: models } = await connect(c.connection);
		const { text } = streamText({ ...loop, model: models(c.model), tools, prompt });
		const words = await text;
		await client.close();
		return words;
	});
}
