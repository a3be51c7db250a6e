"""SQL jobs: pages, rights and services around a text, which is compiled here and run by `console.pipelines`."""
