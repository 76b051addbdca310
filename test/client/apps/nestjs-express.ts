import { NestFactory } from '@nestjs/core';
import { AppModule } from './nest-module.ts';
import { report } from './options.ts';

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(0, '127.0.0.1');
report('nestjs-express', Number(new URL(await app.getUrl()).port));
