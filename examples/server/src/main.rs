//! A server that answers predictions of a model file as JSON, on the loopback address.
//!
//! ```text
//! $ sparsegp fit examples/data/breast_cancer.csv --target diagnosis --quiet --model-out tumours.safetensors
//! $ cargo run --release --manifest-path examples/server/Cargo.toml -- tumours.safetensors 8080 &
//! 2 inputs per row, at http://127.0.0.1:8080/predict
//! $ curl -d '{"rows": [[25.0, 0.25], [12.0, 0.05]]}' -H 'content-type: application/json' http://127.0.0.1:8080/predict
//! {"mean":[0.9996637201521527,0.0021655482176165305],"variance":[0.00033616676371127455,0.0021608586185337085],"low":[1.0,0.0],"high":[1.0,0.0]}
//! $ curl -d '{"rows": [[25.0]]}' -H 'content-type: application/json' http://127.0.0.1:8080/predict
//! {"error":"row 0 has 1 inputs, expected 2"}
//! ```

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use sparsegp::prelude::*;
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Request {
    /// Rows of inputs in original units, in the order of the inputs of the model.
    rows: Vec<Vec<f64>>,
    /// Exposures of counts; none if all are 1.
    #[serde(default)]
    exposure: Vec<f64>,
}

/// Predictions of every row, in units of the target. A quantity that the model does not define is null.
#[derive(Serialize)]
struct Answer {
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// The quantiles 0.025 and 0.975 of the target.
    low: Vec<f64>,
    high: Vec<f64>,
}

#[derive(Serialize)]
struct Refusal {
    error: String,
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("expected the path of a model file")?;
    let port: u16 = arguments.next().map_or(Ok(8080), |port| port.parse())?;
    let model = Arc::new(Model::load(Path::new(&path))?);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("{} inputs per row, at http://{}/predict", model.inputs(), listener.local_addr()?);
    axum::serve(listener, Router::new().route("/predict", post(predict)).with_state(model)).await?;
    Ok(())
}

/// Predicts on a thread for work that takes long, so that other requests are answered meanwhile.
async fn predict(
    State(model): State<Arc<Model>>,
    Json(request): Json<Request>,
) -> std::result::Result<Json<Answer>, (StatusCode, Json<Refusal>)> {
    let answer = tokio::task::spawn_blocking(move || answer(&model, &request)).await;
    let refusal = |status, error: String| (status, Json(Refusal { error }));
    match answer {
        Ok(Ok(answer)) => Ok(Json(answer)),
        Ok(Err(error)) => Err(refusal(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())),
        Err(error) => Err(refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn answer(model: &Model, request: &Request) -> Result<Answer> {
    let columns = model.inputs();
    if let Some(row) = request.rows.iter().position(|row| row.len() != columns) {
        let found = request.rows[row].len();
        return Err(Error::data(format!("row {row} has {found} inputs, expected {columns}")));
    }
    let numbers = request.rows.concat();
    let predictions = model.predict(Rows::from_row_major(&numbers, columns)?, &request.exposure)?;
    Ok(Answer {
        mean: predictions.means(),
        variance: predictions.variances(),
        low: predictions.quantiles(0.025),
        high: predictions.quantiles(0.975),
    })
}
